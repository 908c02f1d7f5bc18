/**
 * The search attributes of our workflows: whether the namespace has them, and how it gets them. A start with one that the
 * namespace does not know is refused by the server, so none is attached before it was seen there.
 * Rule: docs/behaviour/workflows.md, "Search attributes".
 */
import type { Client, WorkflowStartOptions } from '@temporalio/client'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { shellWord } from '../framework/shell-word.ts'
import { inTime } from '../framework/waiting.ts'
import type { TemporalAddress } from './connection.ts'
import type { AppliedSearchAttributes, SearchAttributeName, SearchAttributeState, WorksFor } from './label-rules.ts'
import { SEARCH_ATTRIBUTES } from './label-rules.ts'

/** `temporal.api.enums.v1.IndexedValueType`: those we use, and the others' names for a message. */
const TYPES = ['Unspecified', 'Text', 'Keyword', 'Int', 'Double', 'Bool', 'Datetime', 'KeywordList'] as const
/** The namespace is asked again after this time: an operator may add or remove an attribute while we run. */
const LOOK_AGAIN_MS = 60_000
/** A look that hangs holds nothing up for longer. */
const LOOK_TIMEOUT_MS = 5_000
/** A start waits no longer for the first look; then it goes without attributes. */
const PATIENCE_MS = 1_000
const GRPC_INVALID_ARGUMENT = 3 // https://grpc.io/docs/guides/status-codes/

/** @throws what the server answers */
export async function readSearchAttributes(client: Client): Promise<SearchAttributeState[]> {
  const { namespace } = client.options
  const { customAttributes } = await client.withDeadline(Date.now() + LOOK_TIMEOUT_MS, () =>
    client.connection.operatorService.listSearchAttributes({ namespace }),
  )
  return (Object.keys(SEARCH_ATTRIBUTES) as SearchAttributeName[]).map((name) => {
    const type = SEARCH_ATTRIBUTES[name]
    const found = customAttributes?.[name]
    if (found === undefined || found === null) return { name, type, standing: 'missing', registeredAs: null }
    const registeredAs = TYPES[found] ?? `type ${found}`
    return { name, type, standing: registeredAs === type ? 'registered' : 'differs', registeredAs }
  })
}

/** Registers what is missing. A refusal (Temporal Cloud, or no permission) is part of the answer. Twice changes nothing. */
export async function applySearchAttributes(client: Client, where: TemporalAddress): Promise<AppliedSearchAttributes> {
  const missing = (await readSearchAttributes(client)).filter(({ standing }) => standing === 'missing')
  let refusal: unknown
  if (missing.length > 0) {
    const searchAttributes = Object.fromEntries(
      missing.map(({ name }) => [name, TYPES.indexOf(SEARCH_ATTRIBUTES[name])]),
    )
    try {
      await client.withDeadline(Date.now() + LOOK_TIMEOUT_MS, () =>
        client.connection.operatorService.addSearchAttributes({ namespace: where.namespace, searchAttributes }),
      )
    } catch (error) {
      refusal = error
    }
  }
  const states = await readSearchAttributes(client)
  const isThere = (name: string): boolean =>
    states.some((state) => state.name === name && state.standing === 'registered')
  // Another process may have been first with some: then our call was refused, and they are there all the same.
  const added = refusal === undefined ? missing.flatMap(({ name }) => (isThere(name) ? [name] : [])) : []
  knownSearchAttributes(client).learn(states)
  return { states, added, problem: problemOf(states, where, refusal) }
}

/** At a worker's start: registers what is missing, and warns where that is refused. Never throws: everything works without. */
export async function ensureSearchAttributes(client: Client, where: TemporalAddress, logger: Logger): Promise<void> {
  try {
    const { added, problem } = await applySearchAttributes(client, where)
    if (added.length > 0)
      logger.info({ event: 'temporal.search_attributes_added', names: added }, 'registered search attributes')
    if (problem !== null) warn(problem)
  } catch (error) {
    warn(`${errorLine(error, 300)}. ${byHand(where)}`)
  }

  function warn(problem: string): void {
    logger.warn(
      { event: 'temporal.search_attributes_missing', problem },
      'workflows can not be found by integration or provider in the Temporal UI; all else works',
    )
  }
}

/** The command line for a person with the permission; Temporal Cloud has its own tool. */
function byHand({ address, namespace }: TemporalAddress): string {
  const words = Object.entries(SEARCH_ATTRIBUTES).map(([name, type]) => `--name ${name} --type ${type}`)
  const at = `--address ${shellWord(address)} --namespace ${shellWord(namespace)}`
  return [
    `By hand: temporal operator search-attribute create ${at} ${words.join(' ')}`,
    `on Temporal Cloud: tcld namespace search-attributes add --namespace ${shellWord(namespace)} ${Object.entries(
      SEARCH_ATTRIBUTES,
    )
      .map(([name, type]) => `--search-attribute ${shellWord(`${name}=${type}`)}`)
      .join(' ')}`,
  ].join('; ')
}

function problemOf(states: readonly SearchAttributeState[], where: TemporalAddress, refusal: unknown): string | null {
  const differing = states.find(({ standing }) => standing === 'differs')
  if (differing !== undefined) {
    const { name, type, registeredAs } = differing
    return `The search attribute ${name} is registered as ${registeredAs}, ${type} is needed, so nothing is attached to workflows. Free the name if it is not in use: temporal operator search-attribute remove --address ${shellWord(where.address)} --namespace ${shellWord(where.namespace)} --name ${name}`
  }
  const missing = states.filter(({ standing }) => standing === 'missing').map(({ name }) => name)
  if (missing.length === 0) return null
  const why = refusal === undefined ? '' : ` (${wordsOf(refusal)})`
  return `The search attributes ${missing.join(', ')} are not registered${why}. ${byHand(where)}`
}

/** gRPC's own words, without the SDK's frame around them. */
function wordsOf(error: unknown): string {
  const { details } = error as { details?: unknown }
  return typeof details === 'string' && details !== '' ? details.slice(0, 300) : errorLine(error, 300)
}

/** Whether the namespace has them, as far as this process knows: one for each client. */
function knownSearchAttributes(client: Client): KnownSearchAttributes {
  const known = KNOWN.get(client) ?? new KnownSearchAttributes(client)
  KNOWN.set(client, known)
  return known
}

const KNOWN = new WeakMap<Client, KnownSearchAttributes>()

class KnownSearchAttributes {
  readonly #client: Client
  #areThere = false
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | null = null

  constructor(client: Client) {
    this.#client = client
  }

  /** Waits for the first look, a second at most. Later looks run beside it. */
  async areThere(): Promise<boolean> {
    if (this.#lookedAt === Number.NEGATIVE_INFINITY) await inTime(this.#look(), PATIENCE_MS)
    if (performance.now() - this.#lookedAt > LOOK_AGAIN_MS) void this.#look()
    return this.#areThere
  }

  learn(states: readonly SearchAttributeState[]): void {
    this.#areThere = states.every(({ standing }) => standing === 'registered')
    this.#lookedAt = performance.now()
  }

  /** A start with them was refused: none is attached before they have been seen again, in a minute. */
  refused(): void {
    this.#areThere = false
    this.#lookedAt = performance.now()
  }

  /** A namespace that can't be asked counts as one without them. */
  #look(): Promise<void> {
    this.#looking ??= readSearchAttributes(this.#client)
      .then(
        (states) => this.learn(states),
        () => this.refused(),
      )
      .finally(() => {
        this.#looking = null
      })
    return this.#looking
  }
}

/** What a start takes along. */
export type StartLabels = Pick<WorkflowStartOptions, 'typedSearchAttributes'>

type Pair = Extract<NonNullable<WorkflowStartOptions['typedSearchAttributes']>, readonly unknown[]>[number]

/**
 * Starts, or signals with start, under the search attributes where the namespace has them. A start never fails because of
 * one: a refused start is made again without.
 */
export async function withSearchAttributes<T>(
  client: Client,
  worksFor: WorksFor,
  start: (labels: StartLabels) => Promise<T>,
): Promise<T> {
  const known = knownSearchAttributes(client)
  if (!(await known.areThere())) return start({})
  try {
    return await start({ typedSearchAttributes: pairsOf(worksFor) })
  } catch (error) {
    if (!isSearchAttributeRefusal(error)) throw error
    known.refused()
    return start({})
  }
}

function pairsOf({ integrationId, provider }: WorksFor): Pair[] {
  const pairs: Pair[] = [{ key: { name: 'IntegrationId', type: 'INT' }, value: integrationId }]
  if (provider !== null) pairs.push({ key: { name: 'IntegrationProvider', type: 'KEYWORD' }, value: provider })
  return pairs
}

/** The server refused a start because of a search attribute: it was removed, or a host of the server has not heard of it yet. */
function isSearchAttributeRefusal(error: unknown): boolean {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    const { code, details = '' } = link as { code?: unknown; details?: string }
    if (code === GRPC_INVALID_ARGUMENT) return /search attribute/i.test(`${details} ${link.message}`)
  }
  return false
}
