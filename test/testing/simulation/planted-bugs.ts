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

const planted =
  <Name extends string>(host: (bug?: Name) => PlantedBug['host']) =>
  (name: Name, plan: Plan, invariant = MIRROR): PlantedBug => ({ name, host: host(name), invariant, plan })
const synced = planted(syncedMirror)
const delivered = planted(deliveredMirror)
const mirroring = planted(mirrored)
const charging = planted(chargingHost)
const queued = planted(queuedHost)

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
  charging(
    'write without a key',
    {
      steps: [place, { ...webhooks, faults: [{ call: 1, gets: 'an error after it worked' }] }],
    },
    'each order is charged once',
  ),
  charging(
    'another key each time',
    {
      steps: [place, { ...webhooks, faults: [{ call: 1, gets: 'an error after it worked' }] }],
    },
    'each order is charged once',
  ),
  charging(
    'counts twice',
    {
      steps: [place, { ...webhooks, faults: [{ call: 2, gets: 'an error' }] }],
    },
    'the total is the number of orders',
  ),
  charging(
    'two writes without a transaction',
    {
      steps: [place, { ...webhooks, faults: [{ crashAfter: 10 }] }],
    },
    'each parcel has its line',
  ),
  charging(
    'mapped after the call',
    {
      steps: [place, { ...webhooks, faults: [{ call: 2, gets: 'an error after it worked' }] }],
    },
    'each customer is there once',
  ),
  queued(
    'counts twice in a queued listener',
    {
      steps: [place, { run: 'events', faults: [{ crashAfter: 1 }] }],
    },
    'each delivery is counted once',
  ),
  queued('a queued listener that always throws', { steps: [place] }, 'nothing is left undone'),
]
