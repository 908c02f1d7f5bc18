/** The HTTP door: the operations of the table of commands as routes. Rule: docs/behaviour/operator-api.md. */
import type { Context } from 'hono'
import { Hono } from 'hono'
import { z } from 'zod'
import type { Principal } from '../access/rules.ts'
import { isLimited, limitsOf, sha256Hex } from '../access/rules.ts'
import type { Command, CommandContext, Route } from '../commands/command.ts'
import { snakeCase } from '../commands/command.ts'
import type { Fields, Values } from '../commands/fields.ts'
import { openFields, readValues } from '../commands/fields.ts'
import { TABLE } from '../commands/index.ts'
import { isProblemCode } from '../commands/statuses.ts'
import type { Integrations } from '../create-integrations.ts'
import { bodyGiven, invalid, jsonBody, queryGiven } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { addressOf } from './caller.ts'
import { externalPath, refuseLimited } from './middleware.ts'
import { idIn } from './named-routes.ts'
import { ProblemError } from './problem.ts'

/** A route, and what it leaves out taken from its command. */
export interface Operation extends Required<Pick<Route, 'method' | 'path' | 'summary' | 'reach' | 'status'>> {
  readonly command: Command
  readonly route: Route
  /** Without those that are for terminals. */
  readonly fields: Fields
}

/** Every operation of the table. */
export function operations(table: readonly { readonly name: string }[] = TABLE): readonly Operation[] {
  const commands = table.filter((each): each is Command => 'run' in each)
  return commands.flatMap((command) =>
    (command.routes ?? []).map((route) => ({
      command,
      route,
      method: route.method,
      path: route.path,
      summary: route.summary ?? command.summary,
      reach: route.reach ?? command.reach ?? 'all',
      status: route.status ?? 200,
      fields: openFields(route.fields ?? command.fields),
    })),
  )
}

/** The middleware before these routes has checked the caller's scope. */
export function commandRoutes(integrations: Integrations, all = operations()): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  for (const operation of all) {
    const shown = shownBy(operation, all)
    routes.on(operation.method.toUpperCase(), operation.path, (context) =>
      answer(integrations, context, operation, shown),
    )
  }
  return routes
}

/** The GET of an operation's path whose answer has a version. */
function shownBy({ path }: Operation, all: readonly Operation[]): Operation | undefined {
  return all.find((other) => other.method === 'get' && other.path === path && other.route.version !== undefined)
}

/** The record that an operation is about: the same name at both doors, for each of its methods. */
export const recordPath = ({ path }: Pick<Operation, 'path'>, values: Values<Fields>): string =>
  path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(values[name])))

/** Whether the changes of its record are made one after the other. */
export const isChangeOfVersioned = (operation: Operation, all = operations()): boolean =>
  operation.method !== 'get' && shownBy(operation, all) !== undefined

async function answer(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  /** The GET of the path whose answer has a version. */
  shown: Operation | undefined,
): Promise<Response> {
  const { command, route, reach, status } = operation
  const { principal } = context.var.caller
  if (reach === 'all' && isLimited(principal)) return refuseLimited(context, principal)
  const values = await valuesFor(integrations, principal, operation, await givenIn(context, operation))
  const caller = contextOf(integrations, context)
  const run = () => (route.run ?? command.run)(caller, values)
  const change = async () => {
    await refuseOutdated(context, caller, shown, values)
    return run()
  }
  const { inTurn } = integrations.admin.operator
  const result = await (operation.method === 'get'
    ? run()
    : shown
      ? inTurn(recordPath(operation, values), change)
      : change())
  const location = route.location?.(values, result)
  if (location !== undefined) context.header('Location', rooted(integrations, context, operation, location))
  linkNext(integrations, context, result)
  if (route.version !== undefined) context.header('ETag', etagOf(route.version, result))
  return context.json(result as object, status)
}

/**
 * What an operation runs with: read, bounded by the caller's limits, checked.
 *
 * @param given JSON values by the fields' names
 * @throws ProblemError 403, 404, 422; Refused
 */
export async function valuesFor(
  integrations: Integrations,
  principal: Principal,
  operation: Operation,
  given: Readonly<Record<string, unknown>>,
): Promise<Values<Fields>> {
  const { command, route, reach } = operation
  const limited = reach === 'filtered' ? withLimits(principal, given) : given
  const reading = readValues(operation.fields, limited)
  if ('misfits' in reading)
    throw invalid(
      isBodiless(operation) ? 'The query has parameters that do not fit.' : 'The body has fields that do not fit.',
      reading.misfits.map(({ name, allowed }) => ({ path: snakeCase(name), message: allowed })),
    )
  const { values } = reading
  if (route.run === undefined) command.check?.(values)
  route.check?.(values)
  await refuseUnseen(integrations, principal, operation, values)
  return values
}

/** JSON values by the fields' names: from the path, and from the query or the body. */
async function givenIn(context: Context, operation: Operation): Promise<Readonly<Record<string, unknown>>> {
  const { fields, path, reach } = operation
  const inPath = parametersOf(path)
  const elsewhere = new Map(
    Object.keys(fields).flatMap((name) => (inPath.includes(name) ? [] : [[snakeCase(name), name]])),
  )
  const given: Record<string, unknown> = {}
  for (const name of inPath) {
    const word = context.req.param(name) ?? ''
    if (name === 'id' && idIn(word) === 0) throw notFound(reach === 'all' ? singular(path) : reach)
    given[name] = fields[name]?.read(word)
  }
  const isQuery = isBodiless(operation)
  // Such as the `force` of a revocation or a deletion, which would be dropped in silence.
  if (isQuery && operation.method !== 'get') refuseFields(objectIn(await bodyGiven(context)), elsewhere)
  const found = isQuery
    ? queryGiven(context)
    : objectIn(await (operation.route.needsBody ? jsonBody(context, z.unknown()) : bodyGiven(context)))
  // A route that takes all in its body has no parameters.
  const strange = [
    ...Object.keys(found).filter((name) => !elsewhere.has(name)),
    ...(isQuery ? [] : Object.keys(queryGiven(context))),
  ]
  if (strange.length > 0)
    throw invalid(
      isQuery ? 'The query has parameters that do not fit.' : 'The body has fields that do not fit.',
      strange.map((path) => ({
        path,
        message: `is not known here; allowed: ${[...elsewhere.keys()].join(', ') || 'none'}`,
      })),
    )
  for (const [column, value] of Object.entries(found)) {
    const name = elsewhere.get(column) as string
    given[name] = isQuery ? fields[name]?.read(value as string) : value
  }
  return given
}

/** @throws ProblemError 422 where the body of a route has fields that stand in its query */
function refuseFields(body: Readonly<Record<string, unknown>>, inQuery: ReadonlyMap<string, string>): void {
  const strange = Object.keys(body)
  if (strange.length > 0)
    throw invalid(
      'The body has fields that do not fit.',
      strange.map((path) => ({ path, message: inQuery.has(path) ? 'stands in the query' : 'is not known here' })),
    )
}

function objectIn(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Record<string, unknown>
  throw invalid('The body has fields that do not fit.', [{ path: '', message: 'a JSON object is allowed' }])
}

/** Fields of these stand in the query; those of all others in the body. */
export const isBodiless = ({ method, route }: Pick<Operation, 'method' | 'route'>): boolean =>
  method === 'get' || method === 'delete' || route.inQuery === true

/** Names of the parameters in a path. */
export const parametersOf = (path: string): string[] => [...path.matchAll(/:(\w+)/g)].map(([, name]) => name as string)

/** A filter that leaves out whatever the caller may not see. @throws ProblemError 403 where it asks for another's */
function withLimits(principal: Principal, given: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { provider, owner } = limitsOf(principal)
  const limits = {
    ...(provider === undefined ? {} : { provider }),
    ...(owner === undefined ? {} : { owner: `${owner.type}:${owner.id}` }),
  }
  for (const [name, limit] of Object.entries(limits))
    if (given[name] !== undefined && given[name] !== limit)
      throw new ProblemError({
        code: 'insufficient_scope',
        detail: `"${principal.name}" is limited to ${name} ${limit}; another one was asked for.`,
      })
  return { ...given, ...limits }
}

/** @throws ProblemError 404 for what the caller may not know of, as for what does not exist */
async function refuseUnseen(
  { admin: { operator } }: Integrations,
  principal: Principal,
  { reach, route }: Operation,
  { id, integration }: { readonly id?: number; readonly integration?: number },
): Promise<void> {
  if (!isLimited(principal)) return
  const mustExist = integration !== undefined && !route.outlivesIntegrations
  if (mustExist && !(await operator.maySee(principal, 'integration', integration))) throw notFound('integration')
  if (reach === 'all' || reach === 'everyone' || reach === 'filtered' || id === undefined) return
  if (!(await operator.maySee(principal, reach, id))) throw notFound(reach)
}

/** `/tokens/:id` → `token`: the records of no integration have no kind. */
export const singular = (path: string): string => path.split('/')[1]?.replace(/s$/, '') ?? 'record'

export const notFoundCode = (what: string): string =>
  `${what === 'event' ? 'stored_event' : what.replace('-', '_')}_not_found`

/** @param what a kind of records */
function notFound(what: string): ProblemError {
  const code = notFoundCode(what)
  if (!isProblemCode(code)) throw new TypeError(`"${code}" is not in the table of problems.`)
  return new ProblemError({ code, detail: `There is no ${what.replace('-', ' ')} of this id.` })
}

/** What a command knows of a caller over HTTP. */
export function contextOf(integrations: Integrations, context: Context<AccessEnvironment>): CommandContext {
  const { principal } = context.var.caller
  const by = principal.name
  const from = addressOf(context)
  return {
    integrations,
    terminal: NO_TERMINAL,
    json: true,
    by,
    from,
    limits: limitsOf(principal),
    signal: context.req.raw.signal,
    progress: () => {},
    warn: () => {},
    note: (id, action, target = `integration:${id}`, detail) =>
      integrations.admin.operator.note(id, { token: by, action, target, from, detail }),
  }
}

const refusePrompt = async (): Promise<never> => {
  throw new TypeError('A command cannot prompt over HTTP.')
}
const NO_TERMINAL: CommandContext['terminal'] = {
  out: () => {},
  err: () => {},
  isInteractive: false,
  columns: () => 80,
  prompts: { text: refusePrompt, password: refusePrompt, confirm: refusePrompt },
  sources: { environment: {}, file: () => '', stdin: async () => '' },
}

/** A path below the API's root, as the caller reached it. */
function rooted(integrations: Integrations, context: Context, { path }: Operation, location: string): string {
  const depth = path.split('/').length - 1
  const root = context.req.path.replace(/\/+$/, '').split('/').slice(0, -depth).join('/')
  return externalPath(integrations, root) + location
}

/** RFC 8288: the next page of a list. */
function linkNext(integrations: Integrations, context: Context, result: unknown): void {
  if (typeof result !== 'object' || result === null || !('next' in result) || !('data' in result)) return
  if (result.next === null) return
  const query = new URLSearchParams(context.req.query())
  query.set('after', String(result.next))
  context.header('Link', `<${externalPath(integrations, context.req.path)}?${query}>; rel="next"`)
}

/** Of these columns (RFC 9110, 8.8.3). */
function etagOf(version: readonly string[], document: unknown): string {
  const columns = version.map((name) => (document as Record<string, unknown>)[name])
  return `"${sha256Hex(JSON.stringify(columns)).slice(0, 32)}"`
}

/** RFC 9110, 13.1.1. @throws ProblemError 412 */
async function refuseOutdated(
  context: Context,
  caller: CommandContext,
  shown: Operation | undefined,
  { id }: { readonly id?: number },
): Promise<void> {
  const wanted = context.req.header('if-match')
  if (wanted === undefined) return
  const version = shown?.route.version
  const now =
    shown === undefined || version === undefined
      ? null
      : etagOf(version, await (shown.route.run ?? shown.command.run)(caller, { id }))
  if (now !== null && (wanted.trim() === '*' || wanted.split(',').some((each) => each.trim() === now))) return
  const detail =
    now === null
      ? 'Nothing here has an ETag that If-Match could be compared with.'
      : `It was changed meanwhile: look again, and send If-Match with the ETag of what you have seen. It is ${now} now.`
  throw new ProblemError({ code: 'changed_meanwhile', detail })
}
