/**
 * Changes by a person: `/do/<method>/<path of the API>`. GET shows what would be done, to how many, with a form for what is open;
 * POST does it, through the same operation as the API, and so with its checks and its line in the audit.
 * Rule: docs/behaviour/dashboard.md, "Acts".
 */
import { randomUUID } from 'node:crypto'
import type { Context } from 'hono'
import { Hono } from 'hono'
import { html } from 'hono/html'
import { hasScope, safeNextPath } from '../../../access/rules.ts'
import type { CommandContext } from '../../../commands/command.ts'
import { snakeCase } from '../../../commands/command.ts'
import type { Fields, Values } from '../../../commands/fields.ts'
import { isRequired } from '../../../commands/fields.ts'
import type { Integrations } from '../../../create-integrations.ts'
import { invalid, queryGiven } from '../../body.ts'
import type { AccessEnvironment } from '../../caller.ts'
import type { Operation } from '../../command-routes.ts'
import { contextOf, isChangeOfVersioned, parametersOf, recordPath } from '../../command-routes.ts'
import { CSRF_FIELD } from '../../middleware.ts'
import { ProblemError } from '../../problem.ts'
import type { Reader } from '../frame/frame.ts'
import { dashboardPage, readerOf } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { facts, NOTHING, pre } from '../frame/markup.ts'
import { leaveNotice } from '../frame/notice.ts'
import type { ProblemDocument } from '../frame/problem-page.ts'
import { problemOf, problemPanel } from '../frame/problem-page.ts'
import { inputOf } from '../lists/form-fields.ts'
import { progressPath } from './act-progress-page.ts'
import type { ActWords } from './act-words.ts'
import { ACT_WORDS } from './act-words.ts'
import { operationAt, operationOf, runOf, valuesOf } from './operation-door.ts'

export interface Act {
  /** Of the API: `post /webhooks/:id/replay`. */
  readonly operation: string
  /** On the button; default {@link ACT_WORDS}. */
  readonly label?: string
  /** By the fields' names in snake_case; those in the path must be among them. */
  readonly words: Readonly<Record<string, string>>
}

/** Fields of a form that are no field of the operation. */
const FORM = { back: 'back', form: 'form_id', isAgreed: 'is_agreed', name: 'typed_name' } as const
/** Counting beforehand is what the question is for. */
const NOT_ASKED = new Set(['dryRun'])

/** Buttons for acts; none for a reader who may only look. */
export function buttons(reader: Reader, acts: readonly Act[]): Markup {
  if (!reader.mayOperate || acts.length === 0) return NOTHING
  return html`<div class="acts">${acts.map((act) => button(reader, act))}</div>`
}

/** One click where nothing has to be asked; a link to the page of the act otherwise. */
function button(reader: Reader, { operation: key, label, words }: Act): Markup {
  const operation = operationOf(key)
  const act = wordsOf(operation)
  const path = pathOf(reader, operation, words)
  const inPath = parametersOf(operation.path)
  const rest = Object.entries(words).filter(([name]) => !inPath.includes(name))
  const text = label ?? act.label
  if (!act.isOneClick)
    return html`<a class="button" href="${path}${rest.length > 0 ? `?${new URLSearchParams(rest).toString()}` : ''}">${text}</a>`
  return html`<form class="inline" method="post" action="${path}">${sentOnce(reader)}${rest.map(([name, value]) => hidden(name, value))}<button type="submit">${text}</button></form>`
}

function wordsOf({ method, path }: Operation): ActWords {
  const words = ACT_WORDS[`${method} ${path}`]
  if (words === undefined) throw new TypeError(`"${method} ${path}" has no words in ACT_WORDS.`)
  return words
}

const hidden = (name: string, value: string): Markup => html`<input type="hidden" name="${name}" value="${value}">`

/** Fields of each form of an act: the session's token, and an id that is used up by the act. */
const sentOnce = ({ csrf }: Reader): Markup => html`${csrf}${hidden(FORM.form, randomUUID())}`

function pathOf({ root }: Pick<Reader, 'root'>, { method, path }: Operation, words: Given['words']): string {
  return `${root}/do/${method}${path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(words[name] ?? ''))}`
}

export function actRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.get('/do/:method/:path{.+}', async (context) => {
    // What a person may not do is not offered. A POST is refused by the routes' middleware.
    if (!hasScope(context.var.caller.principal.scopes, 'operate'))
      throw new ProblemError({ code: 'insufficient_scope', detail: 'This needs the scope "operate".' })
    const { operation, words } = actAt(context)
    const { [FORM.back]: back = refererOf(context), ...given } = queryGiven(context)
    return askPage(integrations, context, operation, { words: { ...given, ...words }, back })
  })
  routes.post('/do/:method/:path{.+}', async (context) => {
    const { operation, words } = actAt(context)
    const form = Object.entries(await context.req.parseBody()).flatMap(([name, value]) =>
      name === CSRF_FIELD || typeof value !== 'string' ? [] : [[name, value] as const],
    )
    const { back = refererOf(context), form_id: formId, is_agreed, typed_name, ...given } = Object.fromEntries(form)
    const all: Given = { words: { ...given, ...words }, back }
    try {
      await requireAgreement(integrations, operation, all, { isAgreed: is_agreed === 'true', name: typed_name ?? '' })
      const work = () => done(integrations, context, operation, all)
      const answer = formId === undefined ? await work() : await integrations.admin.operator.once(formId, work)
      return (
        answer ?? ledBack(integrations, context, operation, all, 'This form was sent before: nothing was done again.')
      )
    } catch (error) {
      const problem = await problemOf(integrations, context, error)
      return askPage(integrations, context, operation, { ...all, problem })
    }
  })
  return routes
}

interface Given {
  /** By the fields' names in snake_case. */
  readonly words: Readonly<Record<string, string>>
  /** Where the form leads back to after the act. */
  readonly back: string
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

/** What can't be undone is done with a tick, and where it says so with the name. @throws ProblemError 422 */
async function requireAgreement(
  integrations: Integrations,
  operation: Operation,
  { words }: Given,
  given: { readonly isAgreed: boolean; readonly name: string },
): Promise<void> {
  const { isFinal, typesName } = wordsOf(operation)
  if (isFinal && !given.isAgreed)
    throw invalid('Nothing was done.', [{ path: FORM.isAgreed, message: 'tick the box: this can not be undone' }])
  if (!typesName) return
  const { name } = await integrations.get(Number(words.id))
  if (asShown(given.name) !== asShown(name))
    throw invalid('Nothing was done.', [{ path: FORM.name, message: `type the name of the integration: ${name}` }])
}

/** A page shows line breaks and several blanks as one blank, and a field holds no line break. */
const asShown = (name: string): string => name.replaceAll(/\s+/g, ' ').trim()

/** What would be done; once all that it needs is given, to how many. */
async function askPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  { words, back, problem }: Given & { readonly problem?: ProblemDocument },
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const { command, fields, path: pattern, summary } = operation
  const { title, label, warning, isFinal, typesName } = wordsOf(operation)
  const inPath = parametersOf(pattern)
  const open = Object.entries(fields).filter(([name]) => !inPath.includes(name) && !NOT_ASKED.has(name))
  const agreed = problem === undefined ? await agreedWords(integrations, context, operation, words) : null
  const inputs = open.map(([name, field]) =>
    inputOf(name, field, words[snakeCase(name)], {
      none: operation.reach === 'filtered' ? 'any' : 'default',
      isExplained: true,
    }),
  )
  const name = typesName ? (await integrations.get(Number(words.id))).name : null
  const agreement = html`${name === null ? '' : html`<label>Type the name of the integration: ${name}<input name="${FORM.name}" autocomplete="off" required></label>`}
${isFinal ? html`<label class="check"><input type="checkbox" name="${FORM.isAgreed}" value="true" required> I know that this can’t be undone</label>` : ''}`
  const form = (method: 'get' | 'post', text: string, content: unknown): Markup =>
    html`<form class="act" method="${method}" action="${pathOf(reader, operation, words)}">${method === 'post' ? sentOnce(reader) : ''}${hidden(FORM.back, back)}
${content}
${method === 'post' ? agreement : ''}
<div class="acts"><button type="submit"${isFinal ? html` class="danger"` : ''}>${text}</button> <a class="button" href="${leadsBack(reader, operation, { words, back })}">Back</a></div></form>`
  return dashboardPage(integrations, context, {
    title,
    section: null,
    status: problem?.status ?? 200,
    main: html`<p>${summary}</p>
${problem === undefined ? '' : problemPanel(problem)}
${warning === undefined ? '' : html`<p class="panel notice">${warning}</p>`}
${facts(Object.fromEntries(inPath.map((each) => [each, recordOf(reader, operation, words[each] ?? '')])))}
${
  agreed === null
    ? form(command.confirm === undefined ? 'post' : 'get', command.confirm === undefined ? label : 'Go on', inputs)
    : html`${agreed.question === null ? '' : html`<p class="panel notice">${agreed.question}</p>`}
${agreed.isNothing ? html`<p class="panel">Nothing is meant by this: there is nothing to do.</p>` : form('post', `${label}: yes`, hiddenWords(agreed.words, open))}
${open.length === 0 ? '' : html`<h2>Choose otherwise</h2>${form('get', 'Count again', inputs)}`}`
}`,
  })
}

const hiddenWords = (words: Given['words'], open: readonly (readonly [string, unknown])[]) =>
  open.flatMap(([name]) => {
    const value = words[snakeCase(name)]
    return value === undefined ? [] : hidden(snakeCase(name), value)
  })

const recordOf = ({ root }: Reader, { path }: Operation, value: string): Markup => {
  const [, collection = '', id] = path.split('/')
  // A token has no page of its own.
  return id === ':id' && collection !== 'tokens'
    ? html`<a href="${root}/${collection}/${value}">${value}</a>`
    : html`${value}`
}

interface Agreed {
  /** Null: there is nothing to ask. */
  readonly question: string | null
  /** The filter finds nothing. */
  readonly isNothing: boolean
  /** What a yes agrees to: no more than was found. */
  readonly words: Given['words']
}

/** Null: something that it needs is not given yet, or nothing is ever asked. */
async function agreedWords(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  words: Given['words'],
): Promise<Agreed | null> {
  const { command, fields } = operation
  const isOpen = Object.entries(fields).some(([name, field]) => isRequired(field) && !words[snakeCase(name)])
  if (isOpen || command.confirm === undefined) return null
  const values = await valuesOf(integrations, context, operation, words)
  const asked = await command.confirm(contextOf(integrations, context), values)
  // Of acts on what a filter finds, nothing to ask means nothing to do.
  if (asked === null) return { question: null, isNothing: operation.reach === 'filtered', words }
  if (typeof asked === 'string') return { question: asked, isNothing: false, words }
  // Moments and owners stay as they were given: the question narrows numbers and texts only.
  const narrowed = Object.entries(asked.agreed).flatMap(([name, value]) =>
    typeof value === 'number' || typeof value === 'string' || value === true
      ? [[snakeCase(name), String(value)] as const]
      : [],
  )
  return { question: asked.question, isNothing: false, words: { ...words, ...Object.fromEntries(narrowed) } }
}

async function done(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  given: Given,
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const values: Values<Fields> = await valuesOf(integrations, context, operation, given.words)
  const caller = contextOf(integrations, context)
  const startedAt = new Date()
  const run = () => runOf(operation)(caller, values)
  // As over the API: changes of one record are made one after the other.
  const isVersioned = isChangeOfVersioned(operation)
  const record = recordPath(operation, values)
  const result = (await (isVersioned ? integrations.admin.operator.inTurn(record, run) : run())) as object
  if (wordsOf(operation).isShownHere)
    return dashboardPage(integrations, context, {
      title: `${wordsOf(operation).title}: done`,
      section: null,
      main: html`${resultOf(result)}<p><a class="button" href="${leadsBack(reader, operation, given)}">Back</a></p>`,
    })
  const text = saidOf(operation, result, caller)
  const progress = progressPath(reader.root, operation, {
    result,
    startedAt,
    back: leadsBack(reader, operation, given),
  })
  if (progress === null) return ledBack(integrations, context, operation, given, text)
  leaveNotice(integrations, context, text)
  return context.redirect(progress, 303)
}

function ledBack(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  operation: Operation,
  given: Given,
  text: string,
): Response {
  leaveNotice(integrations, context, text)
  return context.redirect(leadsBack(readerOf(integrations, context), operation, given), 303)
}

/** Values that a person copies stand in a box of their own. */
function resultOf(result: object): Markup {
  const entries = Object.entries(result)
  const copied = entries.filter(([name, value]) => ['token', 'url', 'secret'].includes(name) && value !== null)
  const rest = entries.filter((entry) => !copied.includes(entry))
  return html`${copied.map(([name, value]) => html`<h2>${name}</h2>${pre(String(value), name)}<p class="quiet">This is shown once: keep it where its user finds it.</p>`)}
${facts(Object.fromEntries(rest.map(([name, value]) => [name.replaceAll('_', ' '), typeof value === 'object' && value !== null && !(value instanceof Date) ? pre(JSON.stringify(value, null, 2), name) : value instanceof Date ? value.toISOString() : String(value ?? 'none')])))}`
}

function saidOf(operation: Operation, result: object, caller: CommandContext): string {
  const { said, title } = wordsOf(operation)
  if (said !== undefined) return said(result as Readonly<Record<string, unknown>>)
  const { command, route } = operation
  return route.run === undefined && command.show !== undefined ? command.show(result, caller) : `${title}: done.`
}

/** Where the act was begun, else the page of the record that was acted on: `/webhooks/4711/replay` → `/webhooks/4711`. */
function leadsBack({ root }: Reader, { method, path }: Operation, { words, back }: Given): string {
  const [, collection = '', id, further] = path.split('/')
  const record = id === ':id' ? `${root}/${collection}/${words.id}` : `${root}/${collection}`
  // The page of what is gone would be a 404.
  const isGone = method === 'delete' && further === undefined && collection !== 'tokens'
  if (isGone)
    return back.split('?')[0] === record ? `${root}/${collection}` : safeNextPath(back, `${root}/${collection}`)
  return safeNextPath(back, collection === 'tokens' ? `${root}/tokens` : record)
}
