/** The wire between the host and the model of the outside: answers with faults, and deliveries that are under way. */
import type { ManualClock } from '../manual-clock.ts'
import type { SentRequest, Transport } from '../transport.ts'
import { connectionReset } from '../transport.ts'
import type { HostProcess } from './host-process.ts'
import type { CallFault, Change, Fault } from './plan.ts'
import { Random } from './random.ts'
import type { Outside, World } from './scenario.ts'
import type { Story } from './story.ts'

const THROTTLED_SECONDS = 30
const SLOW_SECONDS = 20
/** Between the two copies of a delivery; until one that was not taken comes again. */
const AGAIN_SECONDS = 20

interface UnderWay {
  readonly number: number
  readonly make: () => Request
  dueAtMs: number
}

export class Wire {
  readonly outside: Outside
  /** The first error of the model itself. */
  mistake: { readonly error: unknown } | null = null
  readonly #clock: ManualClock
  readonly #skewMs: number
  readonly #story: Story
  #underWay: UnderWay[] = []
  #deliveries = 0
  #delivery: Change['delivery']
  #faults: readonly Fault[] = []
  #calls = 0

  constructor(model: (world: World) => Outside, clock: ManualClock, skewSeconds: number, story: Story) {
    this.#clock = clock
    this.#skewMs = skewSeconds * 1_000
    this.#story = story
    this.outside = model({ now: () => this.#now(), deliver: (make) => this.#send(make) })
  }

  /** What is due by now, in its order. */
  takeDue(): UnderWay[] {
    const nowMs = this.#clock.now().getTime()
    const due = this.#underWay.filter(({ dueAtMs }) => dueAtMs <= nowMs)
    this.#underWay = this.#underWay.filter((delivery) => !due.includes(delivery))
    return due.sort((a, b) => a.dueAtMs - b.dueAtMs || a.number - b.number)
  }

  /** All that is under way is due now. */
  hurry(): void {
    const nowMs = this.#clock.now().getTime()
    for (const delivery of this.#underWay) delivery.dueAtMs = Math.min(delivery.dueAtMs, nowMs)
  }

  get isQuiet(): boolean {
    return this.#underWay.length === 0
  }

  /** The host has not taken it. */
  putBack(delivery: UnderWay): void {
    delivery.dueAtMs = this.#clock.now().getTime() + AGAIN_SECONDS * 1_000
    this.#underWay.push(delivery)
  }

  /** @throws Error when the model has no such change; what the change throws */
  async change({ change, seed, delivery }: Change): Promise<void> {
    const happen = this.outside.changes[change]
    if (happen === undefined)
      throw new Error(
        `the plan has the change "${change}", the model has ${Object.keys(this.outside.changes).join(', ') || 'none'}`,
      )
    this.#story.add(`outside: ${change}`)
    this.#delivery = delivery
    try {
      await happen.call(this.outside.changes, new Random(seed))
    } finally {
      this.#delivery = undefined
    }
  }

  /** Sets the faults of the calls to come, and counts those from 1 again. */
  meet(faults: readonly Fault[]): void {
    this.#faults = faults
    this.#calls = 0
  }

  transportOf(process: () => HostProcess): Transport {
    const requests: SentRequest[] = []
    return {
      requests,
      useClock() {},
      fetch: (input, init) => {
        const caller = process()
        return caller.whileAlive(() => this.#answered(caller, new Request(input, init)))
      },
    }
  }

  async #answered(caller: HostProcess, request: Request): Promise<Response> {
    this.#calls += 1
    const call = this.#calls
    const { pathname, search } = new URL(request.url)
    const fault = this.#faults.find((one) => 'call' in one && one.call === call)
    const gets = fault !== undefined && 'gets' in fault ? fault.gets : null
    const name = `${request.method} ${pathname}${search}`
    const outcome = await this.#outcomeOf(request, gets)
    this.#story.add(
      `call: ${name} → ${outcome instanceof Response ? outcome.status : 'broken'}${gets === null ? '' : ` (${gets})`}`,
    )
    for (const one of this.#faults) if ('afterCall' in one && one.afterCall === call) await this.#meanwhile(one)
    await caller.hostStep()
    if (outcome instanceof Response) return outcome
    throw outcome
  }

  async #meanwhile(change: Change): Promise<void> {
    try {
      await this.change(change)
    } catch (error) {
      this.mistake ??= { error }
    }
  }

  async #outcomeOf(request: Request, gets: CallFault | null): Promise<Response | TypeError> {
    switch (gets) {
      case 'throttled':
        return new Response(null, { status: 429, headers: { 'retry-after': String(THROTTLED_SECONDS) } })
      case 'an error':
        return new Response('Internal Server Error', { status: 500 })
      case 'no connection':
        return connectionReset()
      case 'an error after it worked':
        await this.#ask(request)
        return new Response('Internal Server Error', { status: 500 })
      case 'a cut body':
        return cut(await this.#ask(request))
      case 'a slow answer':
        this.#clock.advance(SLOW_SECONDS)
        return this.#ask(request)
      case null:
        return this.#ask(request)
    }
  }

  /** The model's answer, with the time that servers say (RFC 9110, section 6.6.1). */
  async #ask(request: Request): Promise<Response> {
    try {
      const { body, status, headers } = await this.outside.api(request)
      const dated = new Headers(headers)
      if (!dated.has('date')) dated.set('date', this.#now().toUTCString())
      return new Response(body, { status, headers: dated })
    } catch (error) {
      this.mistake ??= { error }
      throw connectionReset(error)
    }
  }

  #send(make: () => Request): void {
    this.#deliveries += 1
    const { twice, lateSeconds = 0 } = this.#delivery ?? {}
    const dueAtMs = this.#clock.now().getTime() + lateSeconds * 1_000
    const number = this.#deliveries
    this.#underWay.push({ number, make, dueAtMs })
    if (twice === true) this.#underWay.push({ number, make, dueAtMs: dueAtMs + AGAIN_SECONDS * 1_000 })
    this.#story.add(
      `delivery ${number} leaves${twice === true ? ' twice' : ''}${lateSeconds > 0 ? `, ${lateSeconds} s late` : ''}`,
    )
  }

  #now(): Date {
    return new Date(this.#clock.now().getTime() + this.#skewMs)
  }
}

/** The connection breaks in the middle of the body. */
async function cut(answer: Response): Promise<Response> {
  const bytes = new Uint8Array(await answer.arrayBuffer())
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      if (bytes.length > 1) controller.enqueue(bytes.subarray(0, bytes.length >> 1))
    },
    pull(controller) {
      controller.error(connectionReset())
    },
  })
  const isBodiless = answer.status === 204 || answer.status === 304
  return new Response(isBodiless ? null : body, { status: answer.status, headers: answer.headers })
}
