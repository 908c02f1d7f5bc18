/** What changes while it is listed. Rule: docs/behaviour/sync-cursor.md, "The beginning of the listing". */
import assert from 'node:assert/strict'
import { partsOf } from '../../create-integrations.ts'
import type { Json } from '../../framework/json.ts'
import { jsonEquals } from '../../framework/json.ts'
import { findLog } from '../../observability/log-queries.ts'
import type { HasScheduledSync } from '../../providers/contracts.ts'
import { cursorNotAfter, hasInstant } from '../../syncs/checkpoint-rules.ts'
import { findSyncRow } from '../../syncs/sync-rows.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { Bench } from './bench.ts'
import type { Check } from './conformance-check.ts'
import { typeOf, wholeListing } from './listings.ts'
import { shown } from './outcome-checks.ts'

/** Between the first page and what changes behind it: more than clocks differ by, less than a token lasts. */
const LISTING_SECONDS = 600

/** The moment that the cursor of a run may not pass; null: the provider declares that it may. */
export async function latestCursorOf(bench: Bench, syncLogId: number): Promise<Date | null> {
  if ((bench.provider as HasScheduledSync).listsByCheckpoint === true) return null
  const { framework } = partsOf(bench.kit.integrations)
  const log = await findLog(framework.db, framework.tables, syncLogId)
  const { listing_began_at: beganAt } = (log?.metadata ?? {}) as { listing_began_at?: string }
  return beganAt === undefined ? null : new Date(beganAt)
}

const TIMES: Check = {
  name: 'gives checkpoints that are times, or lists by them and says so',
  async run(bench) {
    const provider = bench.provider as HasScheduledSync
    const { items } = (await wholeListing(bench)).session
    const checkpoints = items.map(({ checkpointValue }) => checkpointValue).filter((each) => each !== null)
    if (provider.listsByCheckpoint !== true) {
      const other = checkpoints.filter((each) => !hasInstant(each))
      assert.deepEqual(
        other,
        [],
        `the cursor of a listing is held at the moment at which it began, or what changes behind the page is lost, and only a time can be: ISO 8601 with a zone. These are none: ${shown(other.slice(0, 3))}. (An API that lists in their order, all of it in one list, is declared by listsByCheckpoint = true.)`,
      )
      return
    }
    const types = [...new Set(items.map(({ event }) => typeOf(event)))]
    assert(
      types.length <= 1 && isInOrder(checkpoints, (each) => provider.reduceCheckpoints(each)),
      `listsByCheckpoint says that all items come in one list, in the order of their checkpoints; here are ${types.join(' and ')}, in the order ${shown(checkpoints)}`,
    )
  },
}

const CHANGED: Check = {
  name: 'leaves the cursor where its listing began, whatever changes behind the page',
  async run(bench) {
    const { items } = (await wholeListing(bench)).session
    const last = items.map(({ checkpointValue }) => checkpointValue).findLast((each) => typeof each === 'string')
    const { clock } = bench.kit
    const { api } = bench.subject.fixtures
    const beganAt = clock.now()
    let answers = 0
    const changing: PlayedApi = async (request) => {
      const { status, headers, body } = await api(request)
      answers += 1
      const text = body === null ? null : await new Response(body).text()
      const isChanged = answers > 1 && last !== undefined
      const answered = isChanged ? (text?.replaceAll(String(last), clock.now().toISOString()) ?? null) : text
      const dated = new Headers(headers)
      dated.set('date', clock.now().toUTCString())
      if (answers === 1) clock.advance(LISTING_SECONDS)
      return new Response(answered, { status, headers: dated })
    }
    const integration = await bench.create()
    const { result, syncLogId } = await bench.answeredBy(changing, () =>
      bench.inTime('the run', () => bench.sync(integration)),
    )
    const latest = await latestCursorOf(bench, syncLogId)
    if (latest === null) return
    const { framework } = partsOf(bench.kit.integrations)
    const of = { integrationId: integration.id, stream: bench.stream }
    const syncCursor = ((await findSyncRow(framework.db, framework.tables, of))?.syncCursor ?? null) as Json
    assert.deepEqual(
      cursorNotAfter(syncCursor, beganAt),
      syncCursor,
      `what changed after the listing began may be behind the page, and the cursor must not pass it: the listing began at ${beganAt.toISOString()}, and the cursor is ${shown(syncCursor)} (of the run: ${shown(result.cursor)}). Do not set it yourself.`,
    )
  },
}

/** One way or the other: of each two neighbours the same one is preferred. */
function isInOrder(checkpoints: readonly Json[], reduce: (checkpoints: readonly Json[]) => Json): boolean {
  const pairs = checkpoints.slice(1).map((next, at) => [checkpoints[at] as Json, next] as const)
  const prefers = (preferred: Json, ...both: Json[]) => jsonEquals(reduce(both), reduce([preferred]))
  return (
    pairs.every(([before, next]) => prefers(next, next, before)) ||
    pairs.every(([before, next]) => prefers(before, before, next))
  )
}

export const changeChecks: readonly Check[] = [TIMES, CHANGED]
