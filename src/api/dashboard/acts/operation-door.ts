/** The browser's door to the table of commands: a page reads and acts through the same operations as the HTTP API. */
import type { Context } from 'hono'
import { snakeCase } from '../../../commands/command.ts'
import type { Fields, Values } from '../../../commands/fields.ts'
import type { Integrations } from '../../../create-integrations.ts'
import { invalid } from '../../body.ts'
import type { AccessEnvironment } from '../../caller.ts'
import type { Operation } from '../../command-routes.ts'
import { contextOf, operations, parametersOf, valuesFor } from '../../command-routes.ts'

const ALL = operations()

/** @param key method and path of the API, such as `get /webhooks/:id` */
export function operationOf(key: string): Operation {
  const found = ALL.find(({ method, path }) => `${method} ${path}` === key)
  if (found === undefined) throw new TypeError(`There is no operation "${key}".`)
  return found
}

/** The operation of a method and a path with values in it, and those values. Null where no operation fits. */
export function operationAt(
  method: string,
  path: string,
): { operation: Operation; words: Record<string, string> } | null {
  const parts = path.split('/')
  for (const operation of ALL) {
    const pattern = operation.path.split('/')
    const fits = pattern.every((part, at) => part === parts[at] || (part.startsWith(':') && (parts[at] ?? '') !== ''))
    if (operation.method !== method || pattern.length !== parts.length || !fits) continue
    const names = parametersOf(operation.path)
    const words = names.map((name) => [name, parts[pattern.indexOf(`:${name}`)] as string] as const)
    return { operation, words: Object.fromEntries(words) }
  }
  return null
}

/** Words by the fields' names in snake_case, as a query or a form has them; an empty one counts as not given. @throws ProblemError 422 */
function givenWords(
  { fields }: Pick<Operation, 'fields'>,
  words: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const names = new Map(Object.keys(fields).map((name) => [snakeCase(name), name]))
  const given: Record<string, unknown> = {}
  for (const [word, value] of Object.entries(words)) {
    const name = names.get(word)
    if (name === undefined)
      throw invalid('The query has parameters that do not fit.', [{ path: word, message: 'is not known here' }])
    if (value !== '') given[name] = fields[name]?.read(value)
  }
  return given
}

/**
 * The answer of an operation, as the API gives it.
 *
 * @param given words by the fields' names in snake_case
 */
export async function ask<Answer>(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  key: string,
  words: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const operation = operationOf(key)
  const values = await valuesOf(integrations, context, operation, words)
  return (await runOf(operation)(contextOf(integrations, context), values)) as Answer
}

/** @throws ProblemError 403, 404, 422; Refused */
export const valuesOf = (
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  words: Readonly<Record<string, string>>,
): Promise<Values<Fields>> =>
  valuesFor(integrations, context.var.caller.principal, operation, givenWords(operation, words))

/** What an operation runs: its own work, or its command's. */
export const runOf = ({ command, route }: Operation) => route.run ?? command.run
