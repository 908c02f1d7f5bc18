/** What a provider's zod schema asks for, field by field: for prompts, and to know which words are JSON. */
import { z } from 'zod'

export interface SchemaField {
  readonly name: string
  readonly required: boolean
  readonly description: string | null
  /** True unless the schema takes no string there: then a word is read as JSON. */
  readonly takesString: boolean
  /** JSON Schema's names of what is taken, for messages. */
  readonly types: readonly string[]
}

interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly description?: string
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly allOf?: readonly JsonSchema[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
}

/**
 * The fields of an object's schema in its own order; of a union all, required where each branch asks for it. Empty for any
 * other schema, and for one that JSON Schema can't say (a host's zod of another major version).
 */
export function fieldsOf(schema: z.ZodType | undefined): readonly SchemaField[] {
  if (schema === undefined) return []
  const branches = objectsIn(jsonSchemaOf(schema))
  const fields = new Map<string, SchemaField>()
  for (const { properties = {} } of branches)
    for (const [name, property] of Object.entries(properties)) {
      const types = [...new Set([...(fields.get(name)?.types ?? []), ...typesOf(property)])]
      fields.set(name, {
        name,
        required: branches.every(({ required = [] }) => required.includes(name)),
        description: property.description ?? null,
        takesString: types.length === 0 || types.includes('string'),
        types,
      })
    }
  return [...fields.values()]
}

function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema
  } catch {
    return {}
  }
}

function objectsIn(schema: JsonSchema): JsonSchema[] {
  if (schema.properties !== undefined) return [schema]
  return [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])].flatMap(objectsIn)
}

/** Empty when anything is taken. */
function typesOf(schema: JsonSchema): string[] {
  if (schema.type !== undefined) return [schema.type].flat()
  if (schema.const !== undefined) return [typeof schema.const]
  if (schema.enum !== undefined) return [...new Set(schema.enum.map((value) => typeof value))]
  return [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(typesOf)
}
