/** A worker with one workflow and an activity per item; the activity's statement is that of the other peers. */
import { pino } from 'pino'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { answerParent } from '../child.ts'
import type { PeerWorker } from '../peer-worker.ts'
import { startPeerWorker } from '../peer-worker.ts'
import { SETTLE } from './settle-job.ts'

export interface ActivityPeerOptions {
  readonly databaseUrl: string
  readonly poolSize: number
  readonly temporalAddress: string
  readonly taskQueue: string
}

export interface ItemActivities {
  settleItem(itemId: number): Promise<void>
}

let sql: Sql | undefined
let worker: PeerWorker | undefined

const offered = {
  async start({ databaseUrl, poolSize, temporalAddress, taskQueue }: ActivityPeerOptions): Promise<void> {
    const log = pino({ base: null }, pino.destination({ fd: process.stdout.fd, sync: true }))
    const pool = postgres(databaseUrl, { max: poolSize, onnotice: () => {} })
    sql = pool
    const activities: ItemActivities = {
      async settleItem(itemId) {
        const { count } = await pool.unsafe(SETTLE, [itemId], { prepare: true })
        if (count !== 1) throw new Error(`item ${itemId} was not pending`)
      },
    }
    const workflows = new URL('./activity-per-item.ts', import.meta.url)
    worker = await startPeerWorker({ temporalAddress, taskQueue }, { workflows, activities }, log)
  },
}
export type ActivityPeerCommands = typeof offered

answerParent(offered, async () => {
  await worker?.stop()
  await sql?.end({ timeout: 5 })
})
