/**
 * The connections that Drizzle's statements run on. Each is a postgres.js client of one connection, and is thrown away once that
 * connection is lost.
 *
 * The driver (3.4.9) opens a lost connection again in the same object, with what the lost one left behind: the rollback of its
 * transaction is written to no socket, which ends the process, or into another caller's transaction; a statement that was
 * never sent counts as done, without rows; a connection never writes again. It also sends a statement behind another one that
 * is under way, which a transaction-mode pooler does not stand. Here a connection has one statement under way.
 * Rule: docs/behaviour/database.md, "Lost connections".
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Options, Sql } from 'postgres'
import postgres from 'postgres'
import {
  connectionError,
  isReadOnly,
  isStandbyError,
  passwordOf,
  readsOnly,
  socketOfOneTry,
  standbyError,
} from './connecting.ts'

export interface PoolSettings {
  /** Connections at most. */
  readonly max: number
  /** An unused connection is closed after this time; 0: never. */
  readonly idleSeconds: number
  /** A statement without an answer after this time fails, is cancelled, and its connection is closed; 0: no limit. */
  readonly statementSeconds: number
  /**
   * Postgres ends a statement that has waited for one lock for this time, with the code `55P03`. Left out: no limit. A setting of the
   * session, so it needs a connection to the server itself; behind a pooler `statementSeconds` alone counts.
   */
  readonly lockSeconds?: number | undefined
  /** Whether statements have names; undefined: where a connection leads to the server itself, with no pooler between. */
  readonly names?: boolean | undefined
}

/** What Drizzle's session for postgres.js calls of its client. */
export interface Statements {
  unsafe(text: string, parameters?: unknown[], options?: object): Rows
}
type Rows = Promise<unknown> & { values(): Promise<unknown> }
/** @param mayName whether a statement of this text is sent under a name, which the connection keeps */
type Send = (client: Sql, mayName: (text: string) => boolean) => Sent
/**
 * A statement of the driver. Its own `cancel()` leaves a rejection unhandled when the server can't be reached, which ends the process;
 * this is what it calls.
 */
interface Sent extends PromiseLike<unknown> {
  readonly canceller?: ((statement: Sent) => Promise<unknown>) | null
}

export interface TransactionStatements extends Statements {
  savepoint<T>(work: (inner: TransactionStatements) => Promise<T>): Promise<T>
}

/** Named statements of a connection: the server keeps them while it lives. Ours are fewer, but some texts differ by their rows. */
const MOST_NAMED = 300
/** Poolers and firewalls end old connections; each of ours ends before, and not all at once. */
const LIFETIME_MS = 30 * 60_000
/** How long `close()` waits for the statements under way, and a connection for the cancellation of its statement. */
const CLOSE_SECONDS = 5
/** After a connection that failed to open none is opened for this time; it doubles while they fail. */
const PAUSE_MS = 25
const LONGEST_PAUSE_MS = 1_000

/** Which of several servers is tried next. By the options of a connection, so that a look over a pool of its own begins where another ended. */
const SERVERS = new WeakMap<Sql['options'], number>()

export class Pool implements Statements {
  /** The driver's; the parsers and serializers in it are those of every connection. */
  readonly options: Sql['options']
  readonly #settings: PoolSettings
  readonly #links = new Set<Link>()
  /** Used last comes last, and is used next. */
  #idle: Link[] = []
  readonly #waiting: { resolve(link: Link): void; reject(error: Error): void }[] = []
  #isClosed = false
  #pauseMs = 0
  #pausesUntil = 0

  constructor(options: Sql['options'], settings: PoolSettings) {
    this.options = options
    this.#settings = settings
  }

  unsafe(text: string, parameters?: unknown[], options?: object): Rows {
    return rows(text, parameters, options, (send) => this.#use((link) => link.run(send)))
  }

  begin<T>(work: (transaction: TransactionStatements) => Promise<T>): Promise<T> {
    return this.#use(async (link) => {
      // Whatever the role's or the database's default: our claims wait for a row and read it again, where another level fails.
      await link.run((client) => client.unsafe('begin isolation level read committed'))
      let savepoints = 0
      const name = (): string => `s${savepoints++}`
      const result = await inScope({ link, name, undo: 'rollback' }, work)
      await link.run((client) => client.unsafe('commit'))
      return result
    })
  }

  /** Waits for the statements under way. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const { reject } of this.#waiting.splice(0)) reject(connectionError('CONNECTION_ENDED', 'the pool is closed'))
    const links = [...this.#links]
    for (const link of this.#idle.splice(0)) link.end()
    const late = setTimeout(() => {
      for (const link of links) link.lose(connectionError('CONNECTION_DESTROYED', 'the pool is closed'))
    }, CLOSE_SECONDS * 1_000)
    await Promise.all(links.map(({ gone }) => gone))
    clearTimeout(late)
  }

  async #use<T>(work: (link: Link) => Promise<T>): Promise<T> {
    const link = await this.#found()
    try {
      return await work(link)
    } finally {
      this.#give(link)
    }
  }

  /**
   * Of several servers the one that takes writes is found before anything of the caller's is sent: each is tried once.
   *
   * @throws the first error that says more than that a server is a standby
   */
  async #found(): Promise<Link> {
    const { length } = this.options.host
    let fault: unknown
    for (let tries = 1; ; tries += 1) {
      const link = await this.#take()
      if (length === 1 || link.hasAnswered) return link
      try {
        await link.run((client) => client.unsafe('select 1'))
        return link
      } catch (error) {
        this.#give(link)
        if (fault === undefined || isStandbyError(fault)) fault = error
        if (tries >= length) throw fault
      }
    }
  }

  async #take(): Promise<Link> {
    if (this.#isClosed) throw connectionError('CONNECTION_ENDED', 'the pool is closed')
    const link = this.#idle.pop()
    if (link !== undefined) return link
    if (this.#links.size < this.#settings.max) return this.#open()
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  #open(): Link {
    const waitMs = Math.max(0, this.#pausesUntil - performance.now())
    const server = SERVERS.get(this.options) ?? 0
    const link = new Link(this.#optionsOf(server), this.#settings, waitMs, (error) => {
      this.#links.delete(link)
      this.#idle = this.#idle.filter((other) => other !== link)
      const isStandby = isReadOnly(error)
      if (isStandby) this.#retire()
      else if (!link.hasAnswered) this.#pause()
      // Many may fail at once: that is one server that is no use.
      if ((isStandby || !link.hasAnswered) && (SERVERS.get(this.options) ?? 0) === server)
        SERVERS.set(this.options, server + 1)
      if (!this.#isClosed) this.#waiting.shift()?.resolve(this.#open())
    })
    this.#links.add(link)
    return link
  }

  /**
   * Of several servers one: the driver would try them without a pause, and would not end while none takes us. Ours is asked whether it
   * takes writes.
   */
  #optionsOf(server: number): Sql['options'] & { readonly mayBeStandby: boolean } {
    const { host, port } = this.options
    const at = server % host.length
    const one = { host: [host[at] ?? ''], port: [port[at] ?? 0], target_session_attrs: undefined }
    return { ...this.options, ...(host.length > 1 ? one : {}), mayBeStandby: host.length > 1 }
  }

  /** No connection of now is used for another statement. Reads would end a pause of the other kind, and each write close all of them. */
  #retire(): void {
    this.#pausesUntil = performance.now() + LONGEST_PAUSE_MS
    for (const link of this.#idle.splice(0)) link.end()
    for (const link of this.#links) link.retire()
  }

  #pause(): void {
    const now = performance.now()
    if (now < this.#pausesUntil) return
    this.#pauseMs = Math.min(Math.max(PAUSE_MS, 2 * this.#pauseMs), LONGEST_PAUSE_MS)
    this.#pausesUntil = now + this.#pauseMs
  }

  #give(link: Link): void {
    if (!link.isOpen) return
    this.#pauseMs = 0
    if (this.#isClosed || link.isOld()) {
      link.end()
      return
    }
    const next = this.#waiting.shift()
    if (next !== undefined) {
      next.resolve(link)
      return
    }
    this.#idle.push(link)
    const { idleSeconds } = this.#settings
    if (idleSeconds > 0) link.endAfter(idleSeconds, () => this.#idle.includes(link))
  }
}

class Link {
  isOpen = true
  hasAnswered = false
  /** The connection is closed. */
  readonly gone: Promise<void>
  readonly #client: Sql
  readonly #statementSeconds: number
  readonly #lockSeconds: number | undefined
  #oldAt = performance.now() + LIFETIME_MS * (1 + Math.random())
  readonly #onLost: (error?: Error) => void
  #setGone = (): void => {}
  /** Ends the statement under way. */
  #fail: (error: Error) => void = () => {}
  #sent: Sent | undefined
  /** The statements before the next one. */
  #last: Promise<unknown>
  /** Whether statements have names; undefined: not known yet. */
  #names: boolean | undefined
  /** Whether it leads to the server itself; undefined: not asked yet, or it does not matter. */
  #direct: boolean | undefined
  /** Whether it may have been made to one of several servers that takes no writes. */
  #mayBeStandby: boolean
  /** The texts of those that have. */
  readonly #named = new Set<string>()
  #idleTimer: NodeJS.Timeout | undefined

  constructor(
    { mayBeStandby, ...options }: Sql['options'] & { readonly mayBeStandby: boolean },
    { statementSeconds, lockSeconds, names }: Pick<PoolSettings, 'statementSeconds' | 'lockSeconds' | 'names'>,
    waitMs: number,
    onLost: (error?: Error) => void,
  ) {
    const own = {
      ...options,
      max: 1,
      idle_timeout: 0,
      max_lifetime: 0,
      prepare: true,
      socket: socketOfOneTry(options),
      pass: passwordOf(
        options,
        () => this.isOpen,
        (error) => this.lose(error),
      ),
      onclose: () => this.lose(connectionError('CONNECTION_CLOSED', 'the connection was closed')),
    }
    // The driver takes options of its own making as they are; its listen() makes a client in the same way.
    this.#client = postgres(own as unknown as Options<Record<string, never>>)
    this.#statementSeconds = statementSeconds
    this.#lockSeconds = lockSeconds
    this.#onLost = onLost
    this.#names = names
    this.#mayBeStandby = mayBeStandby
    this.#last = waitMs > 0 ? sleep(waitMs) : Promise.resolve()
    this.gone = new Promise((resolve) => {
      this.#setGone = resolve
    })
  }

  /** Statements given meanwhile wait for this one. */
  run(send: Send): Promise<unknown> {
    clearTimeout(this.#idleTimer)
    const answer = this.#last.then(() => this.#run(send))
    this.#last = answer.catch(() => {})
    return answer
  }

  async #run(send: Send): Promise<unknown> {
    if (!this.isOpen) throw connectionError('CONNECTION_CLOSED', 'the connection was closed before the statement')
    const limit = this.#statementSeconds
    const late = (): void => {
      this.lose(connectionError('STATEMENT_TIMEOUT', `no answer within ${limit} s`), this.#cancelled())
    }
    const timer = limit > 0 ? setTimeout(late, limit * 1_000) : undefined
    try {
      const answer = await new Promise((resolve, reject) => {
        this.#fail = reject
        this.#send(send).then(resolve, reject)
      })
      this.hasAnswered = true
      return answer
    } catch (error) {
      // After any other error the connection is about to end, or its state is not known.
      if (error instanceof postgres.PostgresError && error.severity === 'ERROR') this.hasAnswered = true
      else this.lose(error as Error)
      if (isReadOnly(error)) this.lose(error)
      throw error
    } finally {
      clearTimeout(timer)
      this.#fail = () => {}
      this.#sent = undefined
    }
  }

  /**
   * Postgres notices a closed connection only when it writes: a statement that waits for a lock would still take effect, long after its
   * caller was told that it failed. Over a connection of the driver's own, so the one of the statement must live until then: a pooler
   * knows the statement by it.
   */
  async #cancelled(): Promise<void> {
    const sent = this.#sent
    // Best effort: where the server can't be reached, there is only the closed connection. Over TLS the driver waits without an end.
    await Promise.race([
      sent?.canceller?.(sent).catch(() => {}),
      sleep(CLOSE_SECONDS * 1_000, undefined, { ref: false }),
    ])
  }

  async #send(send: Send): Promise<unknown> {
    if (this.#mayBeStandby) await this.#assertTakesWrites()
    // With names by order of the URL, too: what is set on a direct connection is not only about them.
    if (this.#names !== false) this.#direct ??= await this.#isDirect()
    this.#names ??= this.#direct
    if (!this.isOpen) throw connectionError('CONNECTION_CLOSED', 'the connection was closed before the statement')
    this.#sent = send(this.#client, (text) => this.#mayName(text))
    return this.#sent
  }

  async #assertTakesWrites(): Promise<void> {
    if (await readsOnly(this.#client)) throw standbyError()
    this.#mayBeStandby = false
  }

  #mayName(text: string): boolean {
    if (this.#names === false) return false
    if (this.#named.size < MOST_NAMED) this.#named.add(text)
    return this.#named.has(text)
  }

  /**
   * Whether a server process is ours alone: it told its number when the connection was made, where a pooler tells one that it
   * has made up. From then on Postgres plans a named statement each time, for its parameters, as one without a name. A statement
   * outside of a transaction has the isolation that the claims count on, too: behind a pooler only the server's setting says so.
   */
  async #isDirect(): Promise<boolean> {
    const result = await this.#client.unsafe<{ pid: number }[]>('select pg_backend_pid() as pid')
    const isDirect = result[0]?.pid === result.state?.pid
    const lock = this.#lockSeconds === undefined ? '' : `; set lock_timeout = '${this.#lockSeconds}s'`
    const isolation = `set default_transaction_isolation = 'read committed'`
    if (isDirect && this.isOpen)
      await this.#client.unsafe(`set plan_cache_mode = force_custom_plan; ${isolation}${lock}`)
    return isDirect
  }

  /**
   * Nothing is sent on it any more. The statement under way fails with this error.
   *
   * @param before what the connection is still needed for
   */
  lose(error: Error, before?: Promise<void>): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.#fail(error)
    if (before === undefined) this.#end(0)
    else void before.then(() => this.#end(0))
    this.#onLost(error)
  }

  /** Says goodbye to the server. Nothing may be under way. */
  end(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.#end(CLOSE_SECONDS)
    this.#onLost()
  }

  endAfter(seconds: number, isIdle: () => boolean): void {
    this.#idleTimer = setTimeout(() => isIdle() && this.end(), seconds * 1_000)
  }

  /** It is used for no statement after the one under way. */
  retire(): void {
    this.#oldAt = 0
  }

  isOld(): boolean {
    return performance.now() > this.#oldAt
  }

  #end(timeoutSeconds: number): void {
    clearTimeout(this.#idleTimer)
    void this.#client.end({ timeout: timeoutSeconds }).finally(this.#setGone)
  }
}

interface Scope {
  readonly link: Link
  /** A savepoint's name that the transaction has not had. */
  readonly name: () => string
  readonly undo: string
}

/**
 * Runs the work of a transaction or a savepoint. An error in it, or in one of its statements, undoes it.
 *
 * Where the connection is lost, the server has undone it: nothing is sent.
 */
async function inScope<T>({ link, name, undo }: Scope, work: (scope: TransactionStatements) => Promise<T>): Promise<T> {
  const failures: unknown[] = []
  let isOver = false
  const run = async (send: Send): Promise<unknown> => {
    if (isOver) throw new Error('This transaction is over: its statements must be awaited within it.')
    try {
      return await link.run(send)
    } catch (error) {
      failures.push(error)
      throw error
    }
  }
  const scope: TransactionStatements = {
    unsafe: (text, parameters, options) => rows(text, parameters, options, run),
    async savepoint(inner) {
      const savepoint = name()
      await run((client) => client.unsafe(`savepoint ${savepoint}`))
      return inScope({ link, name, undo: `rollback to ${savepoint}` }, inner)
    },
  }
  try {
    const result = await work(scope)
    // A failed statement has failed the transaction, even if the work has caught the error.
    if (failures.length > 0) throw failures[0]
    isOver = true
    return result
  } catch (error) {
    isOver = true
    if (link.isOpen) await link.run((client) => client.unsafe(undo)).catch((cause: Error) => link.lose(cause))
    throw isAborted(error) && failures.length > 0 ? failures[0] : error
  }
}

/** A statement after the one that failed: in_failed_sql_transaction. */
function isAborted(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '25P02'
}

/** Sends at the end of this turn, when it is known whether `values()` is asked for. */
function rows(
  text: string,
  parameters: unknown[] | undefined,
  options: object | undefined,
  run: (send: Send) => Promise<unknown>,
): Rows {
  let asValues = false
  const send: Send = (client, mayName) => {
    const prepare = parameters !== undefined && parameters.length > 0 && mayName(text)
    const statement = client.unsafe(text, parameters as never[] | undefined, { ...options, prepare })
    return asValues ? statement.values() : statement
  }
  const answer = Promise.resolve().then(() => run(send))
  const values = (): Promise<unknown> => {
    asValues = true
    return answer
  }
  return Object.assign(answer, { values })
}
