/** What `sync()` hands in. Rule: docs/writing-a-provider.md, "A listing". */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { isJson } from '../../framework/json.ts'
import type { HasScheduledSync } from '../../providers/contracts.ts'
import { hasIncrementalSync } from '../../providers/contracts.ts'
import type { SyncItemEventClass } from '../../providers/provider-events.ts'
import type { DispatchedItem } from '../fake-sync-session.ts'
import type { Check } from './conformance-check.ts'
import { keyOf, typeOf, wholeListing } from './listings.ts'

const CLASSES: Check = {
  name: 'lists items of the classes in syncItemEvents() only',
  async run(bench) {
    const provider = bench.provider as HasScheduledSync
    const declared: readonly unknown[] = provider.syncItemEvents?.() ?? []
    const { items } = (await wholeListing(bench)).session
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

/** A session keeps one copy of an id: where both say the same, nothing is lost by that. Items without an id it keeps. */
const EXTERNAL_IDS: Check = {
  name: 'gives no two different items of a class the same external id',
  async run(bench) {
    const { items, dropped } = (await wholeListing(bench)).session
    const kept = new Map(items.map((item) => [keyOfItem(item), item.event.payload]))
    const different = dropped.filter((item) => !isDeepStrictEqual(item.event.payload, kept.get(keyOfItem(item))))
    const keys = [...new Set(different.map(keyOfItem))]
    assert.deepEqual(
      keys,
      [],
      `two items of a class with one external id are one item, of which the newer copy is kept; ${different.length} that differ from it were dropped: ${keys.join(', ')}`,
    )
  },
}

const keyOfItem = ({ event, externalId }: DispatchedItem) => keyOf(typeOf(event), externalId, event.payload)

const PAYLOADS: Check = {
  name: 'hands in payloads that come back from JSON, and from their schema, as they were',
  async run(bench) {
    const { items } = (await wholeListing(bench)).session
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
    const { items } = (await wholeListing(bench)).session
    const wrong = items.filter(({ checkpointValue }) => !isJson(checkpointValue))
    assert.deepEqual(wrong, [], 'each checkpoint must be JSON: times as ISO 8601 text')
    const isMarked = items.some(({ checkpointValue }) => checkpointValue !== null)
    assert(
      isMarked || !hasIncrementalSync(bench.provider),
      'an incremental sync goes on from a cursor, which is made of checkpoints; no item has one',
    )
  },
}

export const itemChecks: readonly Check[] = [CLASSES, EXTERNAL_IDS, PAYLOADS, CHECKPOINTS]
