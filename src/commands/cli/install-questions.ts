/** What `integrations install` asks for when somebody sits at the terminal. Rule: docs/commands.md, "Questions". */
import type { z } from 'zod'
import { readValue } from './given-values.ts'
import type { SchemaField } from './schema-fields.ts'
import { fieldsOf } from './schema-fields.ts'
import type { Terminal } from './terminal.ts'

export interface Values {
  readonly credentials: Readonly<Record<string, unknown>>
  readonly metadata: Readonly<Record<string, unknown>>
}

export function askName({ prompts }: Terminal, label: string): Promise<string> {
  return prompts.text('Name of the integration', {
    initial: label,
    check: (answer) => (answer.trim() === '' ? 'A name is needed.' : undefined),
  })
}

/**
 * Asks for what the provider's schemas know and the command line did not give. An optional field may stay empty.
 *
 * @param comeLater credentials that no person types in
 */
export async function askMissing(
  { prompts }: Terminal,
  schemas: { readonly credentialsSchema?: z.ZodType; readonly metadataSchema?: z.ZodType },
  given: Values,
  comeLater: readonly string[] = [],
): Promise<Values> {
  const ask = async (
    option: string,
    fields: readonly SchemaField[],
    before: Readonly<Record<string, unknown>>,
    question: (title: string, check: (answer: string) => string | undefined) => Promise<string>,
  ): Promise<Record<string, unknown>> => {
    const values: Record<string, unknown> = { ...before }
    for (const field of fields) {
      if (Object.hasOwn(values, field.name)) continue
      const answer = await question(titleOf(field), (text) => problemOf(option, field, text))
      if (answer !== '') values[field.name] = readValue(option, field, answer)
    }
    return values
  }
  return {
    credentials: await ask(
      'credential',
      fieldsOf(schemas.credentialsSchema).filter(({ name }) => !comeLater.includes(name)),
      given.credentials,
      (title, check) => prompts.password(title, { check }),
    ),
    metadata: await ask('metadata', fieldsOf(schemas.metadataSchema), given.metadata, (title, check) =>
      prompts.text(title, { check }),
    ),
  }
}

function titleOf({ name, description, required, takesString, types }: SchemaField): string {
  const hints = [takesString ? null : `JSON: ${types.join(' or ')}`, required ? null : 'optional'].filter(Boolean)
  return `${description === null ? name : `${name}: ${description}`}${hints.length > 0 ? ` (${hints.join(', ')})` : ''}`
}

function problemOf(option: string, field: SchemaField, answer: string): string | undefined {
  if (answer === '') return field.required ? `${field.name} is needed.` : undefined
  try {
    readValue(option, field, answer)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
