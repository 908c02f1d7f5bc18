/** Bugs of the kind that integrations have, each in a little host, and a small plan that brings it out. */
import type { Plan, Scenario } from 'durable-integrations/testing'
import { chargingHost } from './charging-host.ts'
import { deliveredMirror, mirrored, syncedMirror } from './mirror-host.ts'
import { queuedHost } from './queued-host.ts'
import type { Shop } from './shop.ts'

interface PlantedBug {
  readonly name: string
  readonly host: Scenario<Shop>
  /** What breaks. */
  readonly invariant: string
  readonly plan: Plan
}

const MIRROR = 'the mirror equals the shop'
const place = { change: 'place', seed: 1 }
const rename = { change: 'rename', seed: 3 }
const remove = { change: 'remove', seed: 2 }
const sync = { run: 'sync' }
const webhooks = { run: 'webhooks' }

const synced = (name: Parameters<typeof syncedMirror>[0] & string, plan: Plan): PlantedBug => ({
  name,
  host: syncedMirror(name),
  invariant: MIRROR,
  plan,
})
const delivered = (name: Parameters<typeof deliveredMirror>[0] & string, plan: Plan): PlantedBug => ({
  name,
  host: deliveredMirror(name),
  invariant: MIRROR,
  plan,
})
const mirroring = (name: Parameters<typeof mirrored>[0] & string, plan: Plan): PlantedBug => ({
  name,
  host: mirrored(name),
  invariant: MIRROR,
  plan,
})
const charging = (name: Parameters<typeof chargingHost>[0] & string, invariant: string, plan: Plan): PlantedBug => ({
  name,
  host: chargingHost(name),
  invariant,
  plan,
})

const queued = (name: Parameters<typeof queuedHost>[0] & string, invariant: string, plan: Plan): PlantedBug => ({
  name,
  host: queuedHost(name),
  invariant,
  plan,
})

export const PLANTED_BUGS: readonly PlantedBug[] = [
  synced('ties', { steps: [place, sync, rename] }),
  synced('wrong clock', { skewSeconds: -20, steps: [place, sync, remove] }),
  synced('page numbers', {
    steps: [place, place, { afterSeconds: 55, ...sync, faults: [{ afterCall: 1, change: 'remove', seed: 241_223 }] }],
  }),
  synced('throttled is done', {
    steps: [place, place, { afterSeconds: 55, ...sync, faults: [{ call: 2, gets: 'throttled' }] }],
  }),
  synced('swallowed error', {
    steps: [place, { afterSeconds: 5, ...place }, { ...sync, faults: [{ call: 3, gets: 'throttled' }] }],
  }),
  synced('resumed deletes', {
    steps: [place, { afterSeconds: 5, ...place }, { ...sync, faults: [{ crashAfter: 5 }] }],
  }),
  delivered('older overwrites newer', { steps: [{ ...place, delivery: { lateSeconds: 60 } }, rename] }),
  delivered('a deletion is forgotten', { steps: [place, { ...rename, delivery: { lateSeconds: 60 } }, remove] }),
  delivered('changed before placed', { steps: [{ ...place, delivery: { lateSeconds: 60 } }, rename, webhooks] }),
  mirroring('an item brings back the deleted', {
    steps: [
      place,
      {
        ...sync,
        faults: [
          { afterCall: 1, ...remove },
          { afterActivity: 2, run: 'webhooks' },
        ],
      },
    ],
  }),
  charging('write without a key', 'each order is charged once', {
    steps: [place, { ...webhooks, faults: [{ call: 1, gets: 'an error after it worked' }] }],
  }),
  charging('another key each time', 'each order is charged once', {
    steps: [place, { ...webhooks, faults: [{ call: 1, gets: 'an error after it worked' }] }],
  }),
  charging('counts twice', 'the total is the number of orders', {
    steps: [place, { ...webhooks, faults: [{ call: 2, gets: 'an error' }] }],
  }),
  charging('two writes without a transaction', 'each parcel has its line', {
    steps: [place, { ...webhooks, faults: [{ crashAfter: 10 }] }],
  }),
  charging('mapped after the call', 'each customer is there once', {
    steps: [place, { ...webhooks, faults: [{ call: 2, gets: 'an error after it worked' }] }],
  }),
  queued('counts twice in a queued listener', 'each delivery is counted once', {
    steps: [place, { run: 'events', faults: [{ crashAfter: 1 }] }],
  }),
  queued('a queued listener that always throws', 'nothing is left undone', { steps: [place] }),
]
