/** The operator API as an OpenAPI 3.1 document, made of the table of commands. Rule: docs/behaviour/operator-api.md, "OpenAPI". */
import { z } from 'zod'
import { scopeOf, snakeCase, TOPICS } from '../commands/command.ts'
import type { Field } from '../commands/fields.ts'
import { isRequired } from '../commands/fields.ts'
import { PROBLEMS } from '../commands/statuses.ts'
import type { Operation } from './command-routes.ts'
import { isBodiless, parametersOf } from './command-routes.ts'
import { problemType } from './problem.ts'

type Json = Readonly<Record<string, unknown>>

/** @param server where the API is reached: `/operator/api/v1`, with the base URL's path */
export function openApi(all: readonly Operation[], { server, version }: { server: string; version: string }): Json {
  const paths: Record<string, Record<string, Json>> = { ...OPEN_PATHS }
  const versioned = new Set(all.flatMap(({ path, route }) => (route.version === undefined ? [] : [path])))
  for (const operation of all) {
    const path = operation.path.replace(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [operation.method]: operationOf(operation, versioned.has(operation.path)) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Durable Integrations, operator API',
      version,
      description: 'What operators see and do. A token with the scope `read` looks; `operate` also changes.',
      contact: { name: 'Durable Integrations' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server, 'x-internal': true }],
    security: [{ token: [] }],
    tags: ['Health', ...TOPICS].map((name) => ({ name, description: `${name}.` })),
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'A configured token, or one of `create-token`.' },
      },
      schemas: { Problem: PROBLEM },
      responses: Object.fromEntries(
        Object.entries(REFUSALS).map(([status, description]) => [
          `Refused${status}`,
          {
            description,
            content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
          },
        ]),
      ),
    },
  }
}

/** What an operation may be refused with, and what an operator reads about it. */
export const REFUSALS: Readonly<Record<number, string>> = {
  400: 'The body is no JSON.',
  401: 'No token, or one that is not known, is over, or was revoked.',
  403: 'The token lacks the scope, or is limited to others.',
  404: 'There is no such record, or the token may not know of it.',
  408: 'The body did not come in in time.',
  412: '`If-Match` names an ETag that it does not have any more.',
  409: 'The state of the record does not allow it; `code` says what it is.',
  413: 'The body is larger than 1 MiB.',
  415: 'The body is not JSON.',
  422: 'A field or a parameter does not fit; `fields` names each.',
  500: 'A fault here, or of the deployment; the log says more.',
  502: 'The provider failed.',
  503: 'Postgres or Temporal is away, or a limit holds the call; `Retry-After` says when to try again.',
}

const PROBLEM = {
  type: 'object',
  description: 'RFC 9457.',
  required: ['type', 'title', 'status', 'code', 'detail'],
  properties: {
    type: { type: 'string', format: 'uri', description: `Stable: \`${problemType('code')}\`.` },
    title: { type: 'string', description: "The status's own phrase." },
    status: { type: 'integer', format: 'int32', minimum: 400, maximum: 599 },
    code: { type: 'string', description: 'Stable, for programs.', enum: Object.keys(PROBLEMS) },
    detail: { type: 'string', description: 'One sentence for a person.' },
    fields: {
      type: 'array',
      items: {
        type: 'object',
        required: ['path', 'message'],
        properties: { path: { type: 'string' }, message: { type: 'string' } },
        additionalProperties: false,
      },
    },
  },
  additionalProperties: false,
}

const READINESS = z.object({ status: z.string(), parts: z.record(z.string(), z.unknown()).optional() })

/** Open to any caller. */
const OPEN_PATHS: Readonly<Record<string, Record<string, Json>>> = {
  '/healthz': {
    get: {
      operationId: 'healthz',
      summary: 'Whether the process lives.',
      description: 'Says nothing about Postgres or Temporal: a restart would not bring them back.',
      tags: ['Health'],
      security: [],
      responses: { 200: answerOf('It lives.', z.object({ status: z.literal('ok') })) },
    },
  },
  '/readyz': {
    get: {
      operationId: 'readyz',
      summary: 'Whether it can do its work now, part by part.',
      description:
        'For a load balancer. With `exclude=temporal` Temporal does not count: without it webhooks are stored all the same.',
      tags: ['Health'],
      security: [],
      parameters: [
        {
          name: 'exclude',
          in: 'query',
          required: false,
          description: 'a part that does not count',
          schema: { type: 'string', enum: ['temporal'] },
        },
      ],
      responses: {
        200: answerOf('It can.', READINESS),
        422: { $ref: '#/components/responses/Refused422' },
        503: answerOf('It can not.', READINESS),
      },
    },
  },
}

/** @param hasVersion whether the path has an ETag */
function operationOf(operation: Operation, hasVersion: boolean): Json {
  const { command, route, path, summary, fields, status } = operation
  const inPath = parametersOf(path)
  const others = Object.entries(fields).filter(([name]) => !inPath.includes(name))
  const hasBody = !isBodiless(operation) && others.length > 0
  return {
    operationId: operationId(operation),
    summary,
    tags: [command.topic],
    description: `Scope: \`${scopeOf(operation)}\`.${route.run === undefined ? ` On the command line: \`integrations ${command.name}\`.` : ''}`,
    parameters: [
      ...(hasVersion && operation.method !== 'get' ? [IF_MATCH] : []),
      ...inPath.map((name) => ({
        name,
        in: 'path',
        required: true,
        description: fields[name]?.about ?? '',
        schema: schemaOf(fields[name] as Field),
      })),
      ...(isBodiless(operation) ? others : []).map(([name, field]) => ({
        name: snakeCase(name),
        in: 'query',
        required: isRequired(field),
        description: field.about,
        schema: schemaOf(field),
      })),
    ],
    ...(hasBody
      ? {
          requestBody: {
            required: operation.route.needsBody === true || others.some(([, field]) => isRequired(field)),
            content: { 'application/json': { schema: bodyOf(others) } },
          },
        }
      : {}),
    responses: {
      [status]: {
        ...answerOf('Done.', route.output ?? command.output ?? z.unknown()),
        headers: headersOf(operation, hasVersion),
      },
      ...Object.fromEntries(
        refusalsOf(operation, hasVersion).map((refusal) => [
          refusal,
          { $ref: `#/components/responses/Refused${refusal}` },
        ]),
      ),
    },
  }
}

function refusalsOf(operation: Operation, hasVersion: boolean): number[] {
  const changes = scopeOf(operation) === 'operate'
  return [
    ...(changes ? [400, 408, 413, 415] : []),
    401,
    403,
    404,
    // Of a look, too, where credentials can't be read.
    409,
    ...(changes ? [...(hasVersion ? [412] : []), 502] : []),
    422,
    500,
    503,
  ].sort((a, b) => a - b)
}

const IF_MATCH = {
  name: 'If-Match',
  in: 'header',
  required: false,
  description: 'The ETag of what was looked at: 412 where another operator has changed it since.',
  schema: { type: 'string', maxLength: 200 },
}

function headersOf({ method, route, fields }: Operation, hasVersion: boolean): Json {
  const text = (description: string) => ({ description, schema: { type: 'string' } })
  return {
    ...(route.location === undefined ? {} : { Location: text('Where to look at what was made or started.') }),
    ...(hasVersion && method === 'get' ? { ETag: text('For If-Match.') } : {}),
    ...('after' in fields ? { Link: text('The next page, unless this is the last.') } : {}),
  }
}

/** `getWebhooksById`: of the method and the path, so that it stays when a command gets another name. */
export function operationId({ method, path }: Pick<Operation, 'method' | 'path'>): string {
  const words = path
    .split('/')
    .filter((word) => word !== '')
    .flatMap((word) => (word.startsWith(':') ? ['by', word.slice(1)] : word.split(/[-.]/)))
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}

function bodyOf(fields: readonly (readonly [string, Field])[]): Json {
  const required = fields.filter(([, field]) => isRequired(field)).map(([name]) => snakeCase(name))
  return {
    type: 'object',
    properties: Object.fromEntries(
      fields.map(([name, field]) => [snakeCase(name), { ...schemaOf(field), description: field.about }]),
    ),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  }
}

function answerOf(description: string, output: z.ZodType): Json {
  return { description, content: { 'application/json': { schema: jsonSchema(output, 'output') } } }
}

const schemaOf = ({ schema }: Field): Json => jsonSchema(schema, 'input')

/** A Date is a text in JSON; what JSON Schema can't say is left open. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema: made }) => {
      if (zodSchema._zod.def.type === 'date') Object.assign(made, { type: 'string', format: 'date-time' })
      if (made.type === 'integer') made.format = 'int64'
    },
  })
  return json
}
