/** `sync()` and `syncIncremental()`. Rule: docs/writing-a-provider.md, "A listing". */
import assert from 'node:assert/strict'
import type { Json } from '../../core/json.ts'
import { isJson } from '../../core/json.ts'
import type { SyncItemEventClass } from '../../providers/events.ts'
import type { HasScheduledSync, IntegrationProvider } from '../../providers/provider.ts'
import { hasIncrementalSync } from '../../providers/provider.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { TestSync } from '../test-integrations.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './check.ts'
import { failureOf, keysOf, listed, sessionOf, wholeListing } from './listings.ts'
import { outcomeOf, shown, wordsFor } from './outcome.ts'
import { answering, cut, cutInBody, HTML, interrupted } from './played-faults.ts'

/** Longer than a call waits for capacity in its own attempts, so that the run is put off instead. */
const RETRY_AFTER_SECONDS = 3_600
const THROTTLED = answering(429, '{"message":"Too many requests"}', { 'retry-after': String(RETRY_AFTER_SECONDS) })
/** The request whose answer goes wrong: by then something is listed, and something is not. */
const IN_THE_MIDDLE = 2

export function syncChapter(provider: IntegrationProvider, cursor: Json): Chapter {
  const checks = [
    WHOLE,
    CLASSES,
    EXTERNAL_IDS,
    PAYLOADS,
    CHECKPOINTS,
    CURSOR,
    AGAIN,
    ABORTED,
    FAULTS,
    DEFERRED,
    RESUMED,
  ]
  if (hasIncrementalSync(provider) && cursor !== null) checks.push(incremental(cursor))
  return { contract: 'HasScheduledSync: a run', checks }
}

const WHOLE: Check = {
  name: 'lists items over two pages or more, and all of them are processed',
  async run(bench) {
    const before = bench.sent.length
    const { result, items } = await ranOf(bench)
    assert(items.length > 0, "the fixtures' api must list something; the run had no items")
    const asked = bench.sent.length - before
    assert(asked >= IN_THE_MIDDLE, `the fixtures' api must have two pages or more; the listing made ${asked} requests`)
    assert.equal(
      result.failureCount,
      0,
      `all items must be processed; of ${items.length} these failed: ${shown(items.filter(({ error }) => error !== null).map(({ error }) => error))}`,
    )
  },
}

const CLASSES: Check = {
  name: 'lists items of the classes in syncItemEvents() only',
  async run(bench) {
    const provider = bench.provider as HasScheduledSync
    const declared: readonly unknown[] = provider.syncItemEvents?.() ?? []
    const { items } = await wholeListing(bench)
    const unknown = items
      .map(({ event }) => event.constructor as SyncItemEventClass)
      .filter((each) => !declared.includes(each))
    const names = [...new Set(unknown.map((each) => each.type ?? each.name))]
    assert.deepEqual(
      names,
      [],
      `syncItemEvents() must name each class that sync() hands in, so that another process can read stored items; it lacks ${names.join(', ')}`,
    )
  },
}

const EXTERNAL_IDS: Check = {
  name: 'gives each item an external id, and no two of a class the same',
  async run(bench) {
    const session = await wholeListing(bench)
    const without = session.items.filter(({ externalId }) => externalId === null || externalId === '').length
    assert.equal(
      without,
      0,
      `each item must have an external id, by which a repeat is known; ${without} of ${session.items.length} have none`,
    )
    assert.equal(
      session.duplicatesDropped,
      0,
      `two items of a class with one external id are one item; ${session.duplicatesDropped} were dropped`,
    )
  },
}

const PAYLOADS: Check = {
  name: 'hands in payloads that come back from JSON, and from their schema, as they were',
  async run(bench) {
    const { items } = await wholeListing(bench)
    for (const { event, externalId } of items) {
      const { type, schema } = event.constructor as SyncItemEventClass
      const { payload } = event
      const back = JSON.parse(JSON.stringify(payload)) as unknown
      assert.deepEqual(
        back,
        payload,
        `the payload of ${type} ${externalId} must be the same after JSON, since it is stored before it is processed: no Date, undefined, NaN or class instance`,
      )
      const read = schema?.safeParse(back)
      if (read === undefined) continue
      const issues = read.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
      assert.deepEqual(
        issues,
        [],
        `the schema of ${type} must take what is handed in; it refused ${externalId}: ${issues.join('; ')}`,
      )
      assert.deepEqual(
        read.data,
        payload,
        `the schema of ${type} must give listeners what was handed in (a z.looseObject() keeps the keys that it does not name)`,
      )
    }
  },
}

const CHECKPOINTS: Check = {
  name: 'gives items checkpoints that are JSON, as a sync from a cursor needs them',
  async run(bench) {
    const { items } = await wholeListing(bench)
    const wrong = items.filter(({ checkpointValue }) => !isJson(checkpointValue))
    assert.deepEqual(wrong, [], 'each checkpoint must be JSON: times as ISO 8601 text')
    const isMarked = items.some(({ checkpointValue }) => checkpointValue !== null)
    assert(
      isMarked || !hasIncrementalSync(bench.provider),
      'an incremental sync goes on from a cursor, which is made of checkpoints; no item has one',
    )
  },
}

const CURSOR: Check = {
  name: 'ends at the cursor that its checkpoints reduce to',
  async run(bench) {
    const provider = bench.provider as HasScheduledSync
    const { result, items } = await ranOf(bench)
    const checkpoints = items.map(({ checkpointValue }) => checkpointValue as Json).filter((each) => each !== null)
    const expected = checkpoints.length === 0 ? null : provider.reduceCheckpoints(checkpoints)
    assert.deepEqual(
      result.cursor,
      expected,
      `the cursor after a clean run must be what reduceCheckpoints() makes of it; the run ended at ${shown(result.cursor)}`,
    )
  },
}

const AGAIN: Check = {
  name: 'runs again from the cursor of the run before',
  async run(bench) {
    const integration = await bench.create()
    const first = await bench.kit.sync(integration)
    const outcome = await outcomeOf(() => bench.inTime('the second run', () => bench.kit.sync(integration)))
    assert.equal(
      outcome.kind,
      'gave',
      `a run from the cursor ${shown(first.result.cursor)} must end well; it ${wordsFor(outcome)}`,
    )
  },
}

const ABORTED: Check = {
  name: 'stops asking at once when its session is aborted',
  async run(bench) {
    const { api } = bench.subject.fixtures
    const abort = new AbortController()
    let askedBefore = 0
    const aborting: PlayedApi = (request) => {
      if (!abort.signal.aborted) {
        askedBefore = bench.sent.length
        abort.abort(new Error('the conformance suite ends this listing'))
      }
      return api(request)
    }
    const session = sessionOf(await bench.create(), null, abort.signal)
    await bench.answeredBy(aborting, () => bench.withoutRetries(() => failureOf(() => listed(bench, session))))
    const asked = bench.sent.length - askedBefore
    assert.equal(
      asked,
      0,
      `a listing must ask for nothing more once session.signal is aborted; it made ${asked} more requests. Give the signal to integration.request().`,
    )
  },
}

const FAULTS: Check = {
  name: 'throws what goes wrong in the middle: a listing that breaks off must not look whole',
  async run(bench) {
    const { api } = bench.subject.fixtures
    const faults = [
      ['a 500', answering(500)],
      ['a connection that breaks', cut],
      ['an answer that breaks off', cutInBody(api)],
      ['an answer in HTML', HTML],
    ] as const
    const swallowed: string[] = []
    for (const [what, fault] of faults) {
      const session = sessionOf(await bench.create())
      const failure = await bench.answeredBy(interrupted(api, IN_THE_MIDDLE, fault), () =>
        bench.withoutRetries(() => failureOf(() => listed(bench, session))),
      )
      if (failure === null) swallowed.push(`after ${what} it ended with ${session.items.length} items`)
    }
    assert.deepEqual(
      swallowed,
      [],
      `what goes wrong in the middle of a listing must be thrown, or what was not listed is taken for unchanged, or for gone; ${swallowed.join('; ')}`,
    )
  },
}

const DEFERRED: Check = {
  name: 'is put off by a 429 in the middle, and loses no item by it',
  async run(bench) {
    const { api } = bench.subject.fixtures
    const whole = await wholeListing(bench)
    const integration = await bench.create()
    const outcome = await bench.answeredBy(interrupted(api, IN_THE_MIDDLE, THROTTLED), () =>
      bench.inTime('the run', () => outcomeOf(() => bench.kit.sync(integration))),
    )
    assert(
      outcome.kind === 'gave',
      `a run whose provider answers 429 once must go on later, and end well; it ${wordsFor(outcome)}`,
    )
    const keys = outcome.value.items.map(({ eventClass, externalId }) => `${eventClass} ${externalId}`)
    expectAll(keys, keysOf(whole), 'a run that was put off by a 429')
  },
}

const RESUMED: Check = {
  name: 'goes on from its bookmark after a 429 in the middle, and loses no item by it',
  async run(bench) {
    const { api } = bench.subject.fixtures
    const whole = await wholeListing(bench)
    const session = sessionOf(await bench.create())
    const failure = await bench.answeredBy(interrupted(api, IN_THE_MIDDLE, THROTTLED), () =>
      bench.withoutRetries(() => failureOf(() => listed(bench, session))),
    )
    assert(
      failure !== null,
      'a 429 in the middle must be thrown, so that the listing is put off; sync() ended as if it were whole',
    )
    bench.kit.clock.advance(RETRY_AFTER_SECONDS + 1)
    const next = await listed(bench, await session.nextTry())
    expectAll(keysOf(next), keysOf(whole), `a listing that goes on from ${shown(next.resumeFrom())}`)
  },
}

/** What is asked must come of the cursor that the session has: the integration's is another one after a reset. */
function incremental(cursor: Json): Check {
  return {
    name: "asks from the session's cursor, and lists something from there",
    async run(bench) {
      const asked = async (from: Json) => {
        const before = bench.sent.length
        const session = await wholeListing(bench, from)
        const requests = bench.sent.slice(before).map(({ method, url, body }) => `${method} ${url.href} ${body}`)
        return { session, requests }
      }
      const { session, requests } = await asked(cursor)
      assert(session.items.length > 0, `the fixtures' api must list something from the cursor ${shown(cursor)}`)
      const { requests: fromTheBeginning } = await asked(null)
      assert.notDeepEqual(
        requests,
        fromTheBeginning,
        `syncIncremental() must ask for what changed since session.cursor(), here ${shown(cursor)}; it made the requests of a listing from the beginning. (integration.syncCursor is another one after a reset.)`,
      )
    },
  }
}

async function ranOf(bench: Bench): Promise<TestSync> {
  const integration = await bench.create()
  const outcome = await bench.inTime('the run', () => outcomeOf(() => bench.kit.sync(integration)))
  assert(outcome.kind === 'gave', `a run against the fixtures' api must end well; it ${wordsFor(outcome)}`)
  return outcome.value
}

function expectAll(actual: readonly string[], expected: readonly string[], what: string): void {
  const lost = expected.filter((key) => !actual.includes(key))
  assert.deepEqual(
    lost,
    [],
    `${what} must list what an undisturbed one lists; it lacks ${lost.length} of ${expected.length}: ${shown(lost)}`,
  )
}
