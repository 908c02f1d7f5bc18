/** Processes that work on the same rows, keys and locks under faults, and the histories that they leave. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../chaos/seeded-kills.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { installedScript } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, makeWebhook } from '../support/rows.ts'
import type { TalkingProcess } from '../support/talking-process.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import type { Bug } from './bugs.ts'
import { ANY_ROW, readRow, rowSubject } from './claims.ts'
import type { Beginning, End } from './history.ts'
import { History } from './history.ts'
import type { Lane, SubjectKind } from './lane.ts'
import type { Operation } from './porcupine.ts'
import { FIRST_TOKEN, OAUTH } from './tokens.ts'
import type { RoundOrder, Said } from './worker-process.ts'

const SCRIPT = installedScript(new URL('worker-process.ts', import.meta.url))
const PROCESSES = 3
const WEBHOOKS = 5
/** Of the test itself: it reads each row at the end. */
const OWN_CLIENT = 10_000

export interface RoundOptions {
  readonly seed: number
  readonly seconds: number
  readonly subjects: readonly SubjectKind[]
  /** How many of the processes are killed, at a moment that the seed gives. */
  readonly kills?: number
  /** How often the last process stands still for longer than most locks live. */
  readonly stops?: number
  /** How often half of the sessions with Postgres are cut. */
  readonly cuts?: number
  readonly bug?: Bug
}

export class Campaign {
  readonly #database: TestDatabase
  readonly #test: TestIntegrations
  readonly #encryptionKeys: string
  readonly #folder: string
  readonly #processes: (TalkingProcess<Said> | null)[] = Array.from({ length: PROCESSES }, () => null)
  #rounds = 0
  #started = 0

  private constructor(database: TestDatabase, encryptionKeys: string, folder: string) {
    this.#database = database
    this.#encryptionKeys = encryptionKeys
    this.#folder = folder
    const providers = { plain: {}, knowing: {}, oauth: OAUTH }
    this.#test = testIntegrations(database.url, { encryptionKeys, providers })
  }

  /** @param adminUrl of a server */
  static async begin(adminUrl: string): Promise<Campaign> {
    const folder = await mkdtemp(join(tmpdir(), 'durable-integrations-histories-'))
    const campaign = new Campaign(await createTestDatabase({ adminUrl }), encryptionKey('k1'), folder)
    await campaign.#start()
    return campaign
  }

  async end(): Promise<void> {
    await Promise.all(this.#processes.map((running) => running?.process.stop()))
    await this.#test.close()
    await this.#database.drop()
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** @returns what the processes did, and which faults came when */
  async round(options: RoundOptions): Promise<{ operations: Operation[]; faults: string[] }> {
    const { seed, seconds, subjects, bug } = options
    this.#rounds += 1
    await this.#start()
    const restore = await this.#plant(bug)
    try {
      const integrations = await this.#integrations()
      const made = Array.from({ length: WEBHOOKS }, () => makeWebhook(this.#test, integrations.webhooks))
      const webhooks = (await Promise.all(made)).map(({ id }) => id)
      const files = this.#processes.map((_, at) => join(this.#folder, `${this.#rounds}-${at}.jsonl`))
      const order = { seed, seconds, subjects, integrations, webhooks, staleRead: bug?.staleRead ?? false }
      const faults = faultsOf(options)
      const done = this.#processes.map(async (running, at) => {
        if (running === null) throw new Error('the process was not started')
        const saidDone = running.next('done')
        saidDone.catch(() => {})
        running.process.child.send({ ...order, history: files[at], edits: bug?.edits ?? [] } as RoundOrder)
        if (!faults.some(({ kind, process }) => kind === 'kill' && process === at)) return (await saidDone).edited
        await running.process.exited
        this.#processes[at] = null
        return 0
      })
      const [edits] = await Promise.all([Promise.all(done), ...faults.map((fault) => this.#bring(fault))])
      const edited = edits.reduce((sum, each) => sum + each, 0)
      if (bug?.edits !== undefined && edited === 0) throw new Error(`no statement has what "${bug.name}" replaces`)
      const own = join(this.#folder, `${this.#rounds}-own.jsonl`)
      const isAboutClaims = subjects.includes('claims')
      if (isAboutClaims) await this.#readRows(own, webhooks)
      const lines = (await Promise.all([...files, ...(isAboutClaims ? [own] : [])].map(linesOf))).flat()
      return { operations: operationsOf(lines, webhooks), faults: faults.map(describe) }
    } finally {
      await restore()
    }
  }

  async #bring({ kind, process, afterMs, forMs }: Fault): Promise<void> {
    await sleep(afterMs)
    if (kind === 'cut') {
      await this.#test.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and random() < 0.5`
      return
    }
    const child = this.#processes[process]?.process.child
    if (child === undefined) throw new Error(`process ${process} was not started`)
    child.kill(kind === 'kill' ? 'SIGKILL' : 'SIGSTOP')
    if (kind === 'kill') return
    await sleep(forMs)
    child.kill('SIGCONT')
  }

  async #start(): Promise<void> {
    await Promise.all(
      this.#processes.map(async (running, at) => {
        if (running !== null) return
        this.#started += 1
        const started = await startTalkingProcess<Said>(SCRIPT, [String(this.#started)], {
          DATABASE_URL: this.#database.url,
          INTEGRATIONS_ENCRYPTION_KEYS: this.#encryptionKeys,
        })
        this.#processes[at] = started
        await started.next('ready')
      }),
    )
  }

  async #integrations(): Promise<RoundOrder['integrations']> {
    const of = async (provider: string, credentials = {}): Promise<number> =>
      (await makeIntegration(this.#test, provider, { credentials })).id
    return {
      plain: await of('plain'),
      knowing: await of('knowing'),
      oauth: await of('oauth', { access_token: FIRST_TOKEN, refresh_token: 'of first' }),
      webhooks: await of('plain'),
      limited: await of('plain'),
      joined: await of('plain'),
    }
  }

  /** @returns takes it out again */
  async #plant(bug: Bug | undefined): Promise<() => Promise<void>> {
    const { sql } = this.#test
    const undo: string[] = []
    for (const { name, replace, by } of bug?.functions ?? []) {
      const [row] = await sql<{ text: string }[]>`select pg_get_functiondef(${`integration_${name}`}::regproc) as text`
      const text = row?.text ?? ''
      if (!text.includes(replace)) throw new Error(`${name} does not hold what "${bug?.name}" replaces: ${replace}`)
      await sql.unsafe(text.replaceAll(replace, () => by))
      undo.push(text)
    }
    if (bug?.schema !== undefined) {
      await sql.unsafe(bug.schema.plant)
      undo.push(bug.schema.remove)
    }
    return async () => {
      for (const text of undo) await sql.unsafe(text)
    }
  }

  async #readRows(file: string, webhooks: readonly number[]): Promise<void> {
    const { framework } = this.#test
    const lane = { framework, history: new History(file), client: OWN_CLIENT } as Lane
    for (const id of webhooks) await readRow(lane, id)
  }
}

interface Fault {
  readonly kind: 'kill' | 'stop' | 'cut'
  readonly process: number
  /** Since the round began. */
  readonly afterMs: number
  /** Of a standstill. */
  readonly forMs: number
}

/** The processes that are killed are the first ones. The one that stands still is the last. */
function faultsOf({ seed, seconds, kills = 0, stops = 0, cuts = 0 }: RoundOptions): Fault[] {
  const random = seeded(seed)
  const between = (from: number, to: number): number => Math.round((from + (to - from) * random()) * 1_000)
  const fault = (kind: Fault['kind'], process: number, from: number, to: number): Fault => {
    const afterMs = between(from * seconds, to * seconds)
    return { kind, process, afterMs, forMs: kind === 'stop' ? between(0.5, 2) : 0 }
  }
  const last = PROCESSES - 1
  return [
    ...Array.from({ length: kills }, (_, at) => fault('kill', at, 0.3, 0.9)),
    // Each in its own part of the round: a standstill has ended when the next one begins.
    ...Array.from({ length: stops }, (_, at) =>
      fault('stop', last, (0.8 * at + 0.1) / stops, (0.8 * at + 0.3) / stops),
    ),
    ...Array.from({ length: cuts }, () => fault('cut', last, 0.1, 0.9)),
  ]
}

function describe({ kind, process, afterMs, forMs }: Fault): string {
  const at = `after ${(afterMs / 1_000).toFixed(1)} s`
  if (kind === 'cut') return `half of the sessions cut ${at}`
  return kind === 'kill' ? `process ${process} killed ${at}` : `process ${process} stopped ${at} for ${forMs} ms`
}

async function linesOf(file: string): Promise<(Beginning | End)[]> {
  const lines = (await readFile(file, 'utf8')).split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Beginning | End)
}

/** Lines of one file stand together, and an end comes after its beginning. */
function operationsOf(lines: readonly (Beginning | End)[], webhooks: readonly number[]): Operation[] {
  const begun: { beginning: Beginning; end: End | null }[] = []
  let underWay = new Map<number, { beginning: Beginning; end: End | null }>()
  let firstAt: bigint | null = null
  for (const line of lines) {
    if (firstAt === null || BigInt(line.at) < firstAt) firstAt = BigInt(line.at)
    if ('of' in line) {
      const known = underWay.get(line.of)
      if (known !== undefined) known.end = line
    } else {
      // The next file counts from one.
      if (line.id === 1) underWay = new Map()
      const operation = { beginning: line, end: null }
      underWay.set(line.id, operation)
      begun.push(operation)
    }
  }
  const since = (at: string): number => Number(BigInt(at) - (firstAt ?? 0n))
  return begun.flatMap(({ beginning, end }) => {
    const { object, model, client, at, ms, input } = beginning
    const whole: Operation = {
      ...{ object, model, client, input, call: since(at), callMs: ms },
      ...(end === null
        ? { return: null, returnMs: ms, output: {} }
        : { return: since(end.at), returnMs: end.ms, output: end.output, failed: end.failed }),
    }
    return object === ANY_ROW.object ? onEachRow(whole, webhooks) : [whole]
  })
}

/** A claim of several rows is an operation on each of them. One without an end may have taken any row. */
function onEachRow(whole: Operation, webhooks: readonly number[]): Operation[] {
  const taken = whole.output.rows as readonly { id: number; attempts: number }[] | undefined
  if (taken === undefined) return webhooks.map((id) => ({ ...whole, ...rowSubject(id) }))
  return taken.map(({ id, attempts }) => ({ ...whole, ...rowSubject(id), output: { done: true, attempts } }))
}
