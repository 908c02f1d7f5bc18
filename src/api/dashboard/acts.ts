/**
 * Changes by a person: `/do/<method>/<path of the API>`. GET shows what would be done, to how many, with a form for what is open;
 * POST does it, through the same operation as the API, and so with its checks and its line in the audit.
 */
import type { Context } from 'hono'
import { Hono } from 'hono'
import { html } from 'hono/html'
import { hasScope, safeNextPath } from '../../access/rules.ts'
import type { CommandContext } from '../../commands/command.ts'
import { fieldLines, snakeCase } from '../../commands/command.ts'
import type { Fields, Values } from '../../commands/fields.ts'
import { isRequired } from '../../commands/fields.ts'
import type { Integrations } from '../../create-integrations.ts'
import { queryGiven } from '../body.ts'
import type { AccessEnvironment } from '../caller.ts'
import type { Operation } from '../command-routes.ts'
import { contextOf, isChangeOfVersioned, parametersOf } from '../command-routes.ts'
import { CSRF_FIELD } from '../middleware.ts'
import { ProblemError } from '../problem.ts'
import { inputOf } from './form-fields.ts'
import type { Reader } from './frame.ts'
import { dashboardPage, readerOf } from './frame.ts'
import type { Markup } from './markup.ts'
import { facts, NOTHING, pre } from './markup.ts'
import { leaveNotice } from './notice.ts'
import { operationAt, operationOf, runOf, valuesOf } from './operation-door.ts'
import type { ProblemDocument } from './problem-page.ts'
import { problemOf, problemPanel } from './problem-page.ts'

export interface Act {
  /** Of the API: `post /webhooks/:id/replay`. */
  readonly operation: string
  /** On the button. */
  readonly label: string
  /** By the fields' names in snake_case; those in the path must be among them. */
  readonly words: Readonly<Record<string, string>>
}

/** Where a form leads back to after the act. */
const BACK_FIELD = 'back'
/** Counting beforehand is what the question is for. */
const NOT_ASKED = new Set(['dryRun'])
/** What these give is seen here once, and stands in no cookie. */
const SHOWN_HERE = new Set([
  'post /tokens',
  'post /integrations/:id/oauth/link',
  'post /integrations/:id/rotate-webhook-secret',
  'post /integrations/:id/sample',
  'post /integrations/:id/test',
])

/** Buttons for acts; none for a reader who may only look. */
export function buttons(reader: Reader, acts: readonly Act[]): Markup {
  if (!reader.mayOperate || acts.length === 0) return NOTHING
  return html`<div class="acts">${acts.map((act) => button(reader, act))}</div>`
}

/** One click where nothing is open and nothing is asked; a link to the page of the act otherwise. */
function button(reader: Reader, { operation: key, label, words }: Act): Markup {
  const operation = operationOf(key)
  const path = pathOf(reader, operation, words)
  const open = openNames(operation)
  const rest = new URLSearchParams(Object.entries(words).filter(([name]) => open.includes(name)))
  if (open.length > 0 || operation.command.confirm !== undefined)
    return html`<a class="button" href="${path}${rest.size > 0 ? `?${rest.toString()}` : ''}">${label}</a>`
  return html`<form class="inline" method="post" action="${path}">${reader.csrf}<button type="submit">${label}</button></form>`
}

/** Fields that do not stand in the path, in snake_case. */
function openNames({ fields, path }: Operation): string[] {
  const inPath = parametersOf(path)
  return Object.keys(fields).flatMap((name) => (inPath.includes(name) ? [] : [snakeCase(name)]))
}

function pathOf({ root }: Reader, { method, path }: Operation, words: Readonly<Record<string, string>>): string {
  return `${root}/do/${method}${path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(words[name] ?? ''))}`
}

export function actRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.get('/do/:method/:path{.+}', async (context) => {
    // What a person may not do is not offered. A POST is refused by the routes' middleware.
    if (!hasScope(context.var.caller.principal.scopes, 'operate'))
      throw new ProblemError({ code: 'insufficient_scope', detail: 'This needs the scope "operate".' })
    const { operation, words } = actAt(context)
    const { [BACK_FIELD]: back = refererOf(context), ...given } = queryGiven(context)
    return askPage(integrations, context, operation, { words: { ...given, ...words }, back })
  })
  routes.post('/do/:method/:path{.+}', async (context) => {
    const { operation, words } = actAt(context)
    const form = Object.entries(await context.req.parseBody()).flatMap(([name, value]) =>
      name === CSRF_FIELD || typeof value !== 'string' ? [] : [[name, value] as const],
    )
    const { [BACK_FIELD]: back = refererOf(context), ...given } = Object.fromEntries(form)
    const all = { ...given, ...words }
    try {
      const values = await valuesOf(integrations, context, operation, all)
      return await answer(integrations, context, operation, { values, words: all, back })
    } catch (error) {
      const problem = await problemOf(integrations, context, error)
      return askPage(integrations, context, operation, { words: all, back, problem })
    }
  })
  return routes
}

function actAt(context: Context) {
  const method = context.req.param('method') ?? ''
  const at = method === 'get' ? null : operationAt(method, `/${context.req.param('path')}`)
  if (at === null) throw new ProblemError({ code: 'no_such_route', detail: 'There is no such act.' })
  return at
}

/** Path and query of our own page that the browser comes from. */
function refererOf({ req }: Context): string {
  const given = req.header('referer') ?? ''
  const url = URL.canParse(given) ? new URL(given) : null
  return url === null || url.pathname.includes('/do/') ? '' : url.pathname + url.search
}

interface Asked {
  /** By the fields' names in snake_case. */
  readonly words: Readonly<Record<string, string>>
  readonly back: string
  /** Why it was not done. */
  readonly problem?: ProblemDocument
}

/** What would be done; once all that it needs is given, to how many. */
async function askPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  { words, back, problem }: Asked,
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const { command, fields, path: pattern } = operation
  const inPath = parametersOf(pattern)
  const open = Object.entries(fields).filter(([name]) => !inPath.includes(name) && !NOT_ASKED.has(name))
  const path = pathOf(reader, operation, words)
  const agreed = problem === undefined ? await agreedWords(integrations, context, operation, words) : null
  const form = (method: 'get' | 'post', label: string, inputs: unknown): Markup =>
    html`<form class="act" method="${method}" action="${path}">${method === 'post' ? reader.csrf : ''}<input type="hidden" name="${BACK_FIELD}" value="${back}">
${inputs}
<button type="submit"${method === 'post' && command.confirm ? html` class="danger"` : ''}>${label}</button></form>`
  const inputs = open.map(([name, field]) => inputOf(name, field, words[snakeCase(name)]))
  const isAsked = command.confirm !== undefined && agreed !== null
  return dashboardPage(integrations, context, {
    title: operation.summary,
    section: null,
    status: problem?.status ?? 200,
    main: html`${problem === undefined ? '' : problemPanel(problem)}
${facts(Object.fromEntries(inPath.map((name) => [name, words[name]])))}
${
  isAsked
    ? html`${agreed.question === null ? '' : html`<p class="panel trouble">${agreed.question}</p>`}
${form('post', 'Yes, do it', hiddenWords(agreed.words, open))}
${open.length === 0 ? '' : html`<h2>Something else</h2>${form('get', 'Ask again', inputs)}`}`
    : form(command.confirm === undefined ? 'post' : 'get', command.confirm === undefined ? 'Do it' : 'Go on', inputs)
}`,
  })
}

const hiddenWords = (words: Readonly<Record<string, string>>, open: readonly (readonly [string, unknown])[]) =>
  open.flatMap(([name]) => {
    const value = words[snakeCase(name)]
    return value === undefined ? [] : html`<input type="hidden" name="${snakeCase(name)}" value="${value}">`
  })

interface Agreed {
  /** Null: there is nothing to ask. */
  readonly question: string | null
  /** What a yes agrees to: no more than was found. */
  readonly words: Readonly<Record<string, string>>
}

/** Null: something that it needs is not given yet, or nothing is ever asked. */
async function agreedWords(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  words: Readonly<Record<string, string>>,
): Promise<Agreed | null> {
  const { command, fields } = operation
  const isOpen = Object.entries(fields).some(([name, field]) => isRequired(field) && !words[snakeCase(name)])
  if (isOpen || command.confirm === undefined) return null
  const values = await valuesOf(integrations, context, operation, words)
  const asked = await command.confirm(contextOf(integrations, context), values)
  if (asked === null || typeof asked === 'string') return { question: asked, words }
  // Moments and owners stay as they were given: the question narrows numbers and texts only.
  const narrowed = Object.entries(asked.agreed).flatMap(([name, value]) =>
    typeof value === 'number' || typeof value === 'string' || value === true
      ? [[snakeCase(name), String(value)] as const]
      : [],
  )
  return { question: asked.question, words: { ...words, ...Object.fromEntries(narrowed) } }
}

async function answer(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  { values, words, back }: { readonly values: Values<Fields>; readonly words: Asked['words']; readonly back: string },
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const caller = contextOf(integrations, context)
  const run = () => runOf(operation)(caller, values)
  // As over the API: changes of one record are made one after the other.
  const isVersioned = isChangeOfVersioned(operation)
  const path = pathOf({ ...reader, root: '' }, operation, words)
  const result = (await (isVersioned ? integrations.admin.operator.inTurn(path, run) : run())) as object
  if (SHOWN_HERE.has(`${operation.method} ${operation.path}`))
    return dashboardPage(integrations, context, {
      title: 'Done',
      section: null,
      main: html`${pre(fieldLines(result), 'Result')}<p><a href="${safeNextPath(back, reader.root)}">Back</a></p>`,
    })
  leaveNotice(integrations, context, saidOf(operation, result, caller))
  return context.redirect(safeNextPath(back, `${reader.root}${recordPath(operation, words)}`), 303)
}

function saidOf({ command, route, summary }: Operation, result: object, caller: CommandContext): string {
  if (route.run === undefined && command.show !== undefined) return command.show(result, caller)
  const said = Object.entries(result).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value))
  return `Done: ${summary} ${said.map(([name, value]) => `${name.replaceAll('_', ' ')} ${value}`).join(', ')}`
}

/** The page of the record that was acted on: `/webhooks/4711/replay` → `/webhooks/4711`. */
function recordPath({ method, path }: Operation, words: Readonly<Record<string, string>>): string {
  const [, collection = '', id] = path.split('/')
  return id === ':id' && !(method === 'delete' && path.split('/').length === 3)
    ? `/${collection}/${words.id}`
    : `/${collection}`
}
