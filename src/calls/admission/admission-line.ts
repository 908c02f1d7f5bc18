/**
 * The callers of this process that wait for admission: a line for each integration. Its streams take turns, and the callers of
 * one stream go in order of arrival: a stream with many callers does not keep one with few waiting.
 *
 * One statement asks for the whole line. A caller that must wait keeps its place, and the line asks again when the time has come.
 * So a hundred waiting callers cost one statement a window, and no newcomer overtakes them. After a wait for a sliding window the
 * line keeps a pace, so that the window holds by the provider's clock, too.
 * Rule: docs/behaviour/requests.md, "Admission" and "On the way".
 */

import type { IntegrationIdentity } from '../../framework/errors.ts'
import { LONGEST_TIMER_MS } from '../../framework/waiting.ts'
import type { Admission, Limit } from './state-rules.ts'

/** One statement must not hold the row for long. */
const MAX_OWNERS = 100
/** A sliding window frees its units one by one: they add up for this time before the line asks again. */
const MIN_PAUSE_MS = 10
/** When the last order to wait is this old, a paced line asks for all again: the limit may have been raised, or lifted. */
const PACED_MS = 60_000

/** What of an integration a statement needs. */
type Identity = Pick<IntegrationIdentity, 'id' | 'provider'>
type Wait = Extract<Admission, { readonly retryAfterMs: number; readonly kind: 'suppressed' | 'limited' | 'shared' }>

interface Waiting {
  readonly owner: string
  readonly stream: string
  /** Its place, as `putInTurn()` found it last. */
  turn: number
  readonly joinedAt: number
  /** Each gate may hold a caller for the whole budget. */
  readonly slept: { suppressed: number; limited: number; shared: number }
  /** The caller's. */
  readonly signal: AbortSignal | undefined
  /** Of the caller's own time. */
  readonly longestWaitMs: () => number
  readonly resolve: (admission: Admission) => void
  readonly reject: (error: unknown) => void
}

interface Line {
  /** Those of one stream by arrival. */
  waiting: Waiting[]
  /** Callers whose question is under way; they do not stand in line meanwhile. */
  asked: readonly Waiting[]
  /** By stream, the turn that its first caller comes after: that of its last served caller, or the line's when it came. */
  readonly turns: Map<string, number>
  /** The highest of a served caller. */
  turn: number
  /** Null: it does not sleep. */
  pause: Pause | null
  /** Null: all may be asked for at once. */
  step: Step | null
}

interface Pause {
  readonly kind: Wait['kind']
  /** As `performance.now()`; the margin is left out. */
  readonly endsAt: number
  /** The verdict that it follows; null: it is a step. */
  readonly told: Wait | null
  /** Ends it. */
  readonly wake: () => void
}

/** A step of a paced line. Moments as `performance.now()`. */
interface Step {
  readonly pace: Pace
  /** Callers that it may still ask for. */
  left: number
  /** When the next step begins. */
  nextAt: number
  readonly endsAt: number
}

export class AdmissionLines {
  readonly #lines = new Map<number, Line>()
  readonly #ask: (integration: Identity, owners: readonly string[]) => Promise<readonly Admission[]>
  readonly #budgetMs: number
  readonly #wait: ((ms: number) => Promise<void>) | undefined

  /**
   * @param ask one statement; its verdicts stand in the order of the owners
   * @param budgetMs how long each gate may hold one caller, in sum
   * @param wait in place of a timer: moves on the clock that judges the limits
   */
  constructor(
    ask: (integration: Identity, owners: readonly string[]) => Promise<readonly Admission[]>,
    budgetMs: number,
    wait?: (ms: number) => Promise<void>,
  ) {
    this.#ask = ask
    this.#budgetMs = budgetMs
    this.#wait = wait
  }

  /**
   * The verdict: admitted, the circuit is open, or a wait that is longer than the caller may sleep.
   *
   * A caller that gives up leaves the line with the reason of its signal. While its question is under way it gets the verdict
   * all the same: what it took may have to be given back.
   *
   * @param longestWaitMs asked before each wait: a caller whose own time ends sooner is not made to wait
   */
  enter(
    integration: Identity,
    owner: string,
    {
      signal,
      longestWaitMs = () => Number.POSITIVE_INFINITY,
      stream = '',
    }: { readonly signal?: AbortSignal; readonly longestWaitMs?: () => number; readonly stream?: string } = {},
  ): Promise<Admission> {
    return new Promise((resolve, reject) => {
      const line = this.#lines.get(integration.id) ?? emptyLine()
      const leave = (): void => {
        const place = line.waiting.indexOf(waiting)
        // Taken out of the line: its question is under way.
        if (place === -1) return
        line.waiting.splice(place, 1)
        if (line.waiting.length === 0) line.pause?.wake()
        waiting.reject(signal?.reason)
      }
      const over = (): void => signal?.removeEventListener('abort', leave)
      const waiting: Waiting = {
        owner,
        stream,
        turn: 0,
        joinedAt: performance.now(),
        slept: { suppressed: 0, limited: 0, shared: 0 },
        signal,
        longestWaitMs,
        resolve: (admission) => {
          over()
          resolve(admission)
        },
        reject: (error) => {
          over()
          reject(error)
        },
      }
      // It was not there when those in line were asked whether they may sleep.
      const rest = restOf(line.pause)
      if (rest !== null && !this.#maySleep(waiting, rest)) {
        if (rest.told !== null) return resolve({ ...rest.told, retryAfterMs: rest.retryAfterMs })
        line.pause?.wake()
      }
      signal?.addEventListener('abort', leave, { once: true })
      const isOfStream = (other: Waiting): boolean => other.stream === stream
      if (!line.waiting.some(isOfStream) && !line.asked.some(isOfStream))
        line.turns.set(stream, Math.max(line.turn, line.turns.get(stream) ?? 0))
      line.waiting.push(waiting)
      if (this.#lines.get(integration.id) === line) return
      this.#lines.set(integration.id, line)
      void this.#serve(integration, line)
    })
  }

  /** Callers of the integration that stand in line; those whose question is under way are not among them. */
  waiting(integrationId: number): number {
    return this.#lines.get(integrationId)?.waiting.length ?? 0
  }

  /** Whether callers of the integration have their question under way. */
  isAsking(integrationId: number): boolean {
    return (this.#lines.get(integrationId)?.asked.length ?? 0) > 0
  }

  /** The line asks at once, if it sleeps. */
  wake(integrationId: number): void {
    this.#lines.get(integrationId)?.pause?.wake()
  }

  async #serve(integration: Identity, line: Line): Promise<void> {
    while (line.waiting.length > 0) {
      if (line.step !== null && performance.now() >= line.step.endsAt) line.step = null
      putInTurn(line)
      const asked = line.waiting.splice(0, Math.min(MAX_OWNERS, line.step?.left ?? MAX_OWNERS))
      if (line.step !== null) line.step.left -= asked.length
      let told: Wait | null = null
      line.asked = asked
      try {
        const owners = asked.map(({ owner }) => owner)
        told = this.#tell(line, asked, await this.#ask(integration, owners))
      } catch (error) {
        for (const { reject } of asked) reject(error)
      }
      line.asked = []
      if (told !== null && line.waiting.length > 0) await this.#waitAsTold(line, told)
      if (line.step?.left === 0 && line.waiting.length > 0) await this.#nextStep(line, line.step)
    }
    this.#lines.delete(integration.id)
  }

  /** A caller that stays keeps its place. Returns the wait of those that stay; null: none has to wait. */
  #tell(line: Line, asked: readonly Waiting[], verdicts: readonly Admission[]): Wait | null {
    let told: Wait | null = null
    const staying: Waiting[] = []
    for (const [index, waiting] of asked.entries()) {
      const verdict = verdicts[index] as Admission
      if (isWait(verdict)) told = verdict
      else {
        line.turn = Math.max(line.turn, waiting.turn)
        line.turns.set(waiting.stream, waiting.turn)
      }
      if (isWait(verdict) && this.#maySleep(waiting, verdict)) staying.push(waiting)
      else waiting.resolve(verdict)
    }
    if (told === null) return null
    // Callers further back get no unit that those in front did not get.
    const wait: Wait = told
    for (const waiting of line.waiting)
      if (this.#maySleep(waiting, wait)) staying.push(waiting)
      else waiting.resolve(wait)
    line.waiting = []
    // A caller that gave up while the question was under way has nothing to give back, and waits no more.
    for (const waiting of staying)
      if (waiting.signal?.aborted === true) waiting.reject(waiting.signal.reason)
      else line.waiting.push(waiting)
    return wait
  }

  #maySleep({ slept, longestWaitMs }: Waiting, { kind, retryAfterMs }: Pick<Wait, 'kind' | 'retryAfterMs'>): boolean {
    return slept[kind] + retryAfterMs <= this.#budgetMs && retryAfterMs <= longestWaitMs()
  }

  async #waitAsTold(line: Line, told: Wait): Promise<void> {
    const sliding = told.kind === 'limited' && told.limit.window === 'sliding' ? told.limit : null
    const margin = sliding === null ? 0 : marginMs(sliding)
    await this.#pause(line, told.kind, Math.max(told.retryAfterMs, MIN_PAUSE_MS) + margin, told)
    // Suppression does not change the pace. A fixed window has no pace, and real time none in a clock that is moved on.
    if (told.kind === 'limited')
      line.step = sliding === null || this.#wait !== undefined ? null : firstStep(paceOf(sliding))
  }

  async #nextStep(line: Line, step: Step): Promise<void> {
    if (this.#isCutShort(line, step)) return
    const restMs = restMsOf(step)
    if (restMs > 0) {
      await this.#pause(line, 'limited', restMs, null)
      // Also one that came meanwhile.
      if (this.#isCutShort(line, step)) return
    }
    step.left = step.pace.units
    // A late step is not made up for: that would be a burst. A timer that ends early makes no step shorter.
    step.nextAt = Math.max(step.nextAt, performance.now()) + step.pace.everyMs
  }

  /** A caller may be unable to wait for the step's end: then it is asked for now, with all in front of it. */
  #isCutShort(line: Line, step: Step): boolean {
    const retryAfterMs = restMsOf(step)
    if (retryAfterMs <= 0) return false
    putInTurn(line)
    const last = line.waiting.findLastIndex((waiting) => !this.#maySleep(waiting, { kind: 'limited', retryAfterMs }))
    if (last === -1) return false
    step.left = last + 1
    return true
  }

  async #pause(line: Line, kind: Wait['kind'], ms: number, told: Wait | null): Promise<void> {
    // After a cut pause the line asks again and goes on waiting.
    const pauseMs = Math.min(ms, LONGEST_TIMER_MS)
    if (this.#wait !== undefined) {
      for (const { slept } of line.waiting) slept[kind] += pauseMs
      return this.#wait(pauseMs)
    }
    const startedAt = performance.now()
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, pauseMs)
      // When the last caller has left, there is nothing to ask for.
      line.pause = { kind, told, endsAt: startedAt + (told?.retryAfterMs ?? ms), wake: resolve }
    })
    clearTimeout(timer)
    line.pause = null
    // A caller that came meanwhile has slept the rest of it. A pause that ended early counts for as long as it was.
    const endedAt = Math.min(performance.now(), startedAt + pauseMs)
    for (const { slept, joinedAt } of line.waiting) slept[kind] += Math.max(0, endedAt - Math.max(startedAt, joinedAt))
  }
}

function emptyLine(): Line {
  return { waiting: [], asked: [], turns: new Map(), turn: 0, pause: null, step: null }
}

/** What a caller that comes now would have to wait; null: nothing. */
function restOf(pause: Pause | null): (Pick<Pause, 'told'> & Pick<Wait, 'kind' | 'retryAfterMs'>) | null {
  if (pause === null) return null
  const retryAfterMs = pause.endsAt - performance.now()
  return retryAfterMs > 0 ? { kind: pause.kind, told: pause.told, retryAfterMs } : null
}

function restMsOf({ nextAt, endsAt }: Step): number {
  return Math.min(nextAt, endsAt) - performance.now()
}

/** Only a served caller moves its stream on: one that leaves unserved costs those behind it no turn. */
function putInTurn({ waiting, turns }: Line): void {
  const last = new Map(turns)
  for (const one of waiting) {
    one.turn = (last.get(one.stream) ?? 0) + 1
    last.set(one.stream, one.turn)
  }
  waiting.sort((a, b) => a.turn - b.turn)
}

function isWait(admission: Admission): admission is Wait {
  return admission.kind === 'suppressed' || admission.kind === 'limited' || admission.kind === 'shared'
}

function firstStep(pace: Pace): Step {
  const now = performance.now()
  return { pace, left: pace.units, nextAt: now + pace.everyMs, endsAt: now + PACED_MS }
}

export interface Pace {
  /** Calls that are let go in each step. */
  readonly units: number
  readonly everyMs: number
}

/** Share of the window. The limit loses as much. */
const MARGIN_SHARE = 0.02
/** By how much the ways of two calls through the Internet differ. */
const MIN_MARGIN_MS = 100
/** The way does not grow with the window. */
const MAX_MARGIN_MS = 1_000
/** Shorter steps would cost a statement each for little. */
const MIN_STEP_MS = 50

/** How much later than it is free a unit is used. */
export function marginMs({ seconds }: Pick<Limit, 'seconds'>): number {
  return Math.min(Math.max(seconds * 1_000 * MARGIN_SHARE, MIN_MARGIN_MS), MAX_MARGIN_MS)
}

/** The limit, spread over its window and the margin: the same unit is used again no sooner than that. */
export function paceOf({ limit, seconds }: Pick<Limit, 'limit' | 'seconds'>): Pace {
  const unitMs = (seconds * 1_000 + marginMs({ seconds })) / limit
  const units = Math.ceil(MIN_STEP_MS / unitMs)
  return { units, everyMs: units * unitMs }
}
