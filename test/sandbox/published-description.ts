import type { AnySchema } from 'ajv/dist/2020.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Operation } from '../../sandbox/github/description.ts'
import { description } from '../../sandbox/github/description.ts'

type Schema = Record<string, unknown>

const ajv = new Ajv2020({ strict: false, allErrors: true })
addFormats.default(ajv)
ajv.addSchema(asJsonSchema(description) as AnySchema, 'github')

/** `GET /user`, … : every operation the extracted description has. */
export const publishedOperations = Object.entries(description.paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
)

/** What keeps an answer from being one GitHub could give; empty when nothing does. */
export function violations(operation: string, status: number, body: unknown): string[] {
  const [method, path] = operation.split(' ') as [string, string]
  const validate = ajv.compile({ $ref: `github#${schemaPointer(method.toLowerCase(), path, status)}` })
  if (validate(body)) return []
  return (validate.errors ?? []).map((error) => `${error.instancePath || '/'} ${error.message}`)
}

/** What keeps a request from being one that GitHub publishes: a parameter or a body that it does not know. */
export function requestViolations(
  operation: string,
  { query, body }: { query: URLSearchParams; body: string },
): string[] {
  const [method, path] = operation.split(' ') as [string, string]
  const published: Published | undefined = description.paths[path]?.[method.toLowerCase()]
  if (published === undefined) return [`${operation} is not published`]
  const { parameters = [], requestBody } = published
  const known = parameters.map((parameter) => ('$ref' in parameter ? parameterNamed(parameter.$ref) : parameter))
  const ofQuery = [...query].flatMap(([name, value]) => {
    const schema = known.find((parameter) => parameter.name === name && parameter.in === 'query')?.schema
    if (schema === undefined) return [`${name} is no parameter`]
    return invalid(`?${name}`, schema, schema.type === 'integer' ? Number(value) : value)
  })
  if (requestBody === undefined) return body === '' ? ofQuery : [...ofQuery, 'it has no body']
  const schema = requestBody.content['application/json'].schema
  const sent = JSON.parse(body) as Record<string, unknown>
  const strange = Object.keys(sent).filter((key) => !(key in (schema.properties as object)))
  return [...ofQuery, ...strange.map((key) => `${key} is no property`), ...invalid('body', schema, sent)]
}

interface Published extends Operation {
  readonly parameters?: readonly (Parameter | { readonly $ref: string })[]
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Schema } } }
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly schema: Schema
}

function parameterNamed(pointer: string): Parameter {
  return description.components.parameters?.[pointer.split('/').at(-1) ?? ''] as Parameter
}

function invalid(where: string, schema: Schema, value: unknown): string[] {
  const validate = ajv.compile(asJsonSchema(schema) as AnySchema)
  if (validate(value)) return []
  return (validate.errors ?? []).map((error) => `${where}${error.instancePath} ${error.message}`)
}

function schemaPointer(method: string, path: string, status: number): string {
  // Not every operation lists its 401, 403 and 404; all of them have the same shape.
  const isListed = description.paths[path]?.[method]?.responses[status] !== undefined
  if (!isListed && [401, 403, 404].includes(status)) return '/components/schemas/basic-error'
  if (!isListed) throw new Error(`${method.toUpperCase()} ${path} publishes no answer ${status}`)
  const response = description.paths[path]?.[method]?.responses[status] as { $ref?: string }
  const pointer = response.$ref?.slice(1) ?? `/paths/${path.replaceAll('/', '~1')}/${method}/responses/${status}`
  return encodeURI(`${pointer}/content/application~1json/schema`)
}

/** OpenAPI 3.0 says `nullable` where JSON Schema 2020-12 adds null to the types. */
function asJsonSchema(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(asJsonSchema)
  if (node === null || typeof node !== 'object') return node
  const schema = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, asJsonSchema(value)])) as Schema
  if (schema.nullable !== true) return schema
  const { nullable: _, ...rest } = schema
  if (typeof rest.type !== 'string') return { anyOf: [rest, { type: 'null' }] }
  return {
    ...rest,
    type: [rest.type, 'null'],
    ...(Array.isArray(rest.enum) ? { enum: [...new Set([...(rest.enum as unknown[]), null])] } : {}),
  }
}
