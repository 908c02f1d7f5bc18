/** graphile-worker with 24 jobs at once, as it comes or tuned. */
import type { Runner, TaskList } from 'graphile-worker'
import { answerParent } from '../child.ts'
import type { GraphileOptions } from '../graphile.ts'
import { prepared, startGraphile } from '../graphile.ts'
import type { Job } from './settle-job.ts'
import { SETTLE, TASK } from './settle-job.ts'

let runner: Runner | undefined

const offered = {
  async start(options: GraphileOptions): Promise<void> {
    const taskList: TaskList = {
      async [TASK](payload, { withPgClient }) {
        const { itemId } = payload as Job
        const { rowCount } = await prepared(withPgClient, { name: 'settle', text: SETTLE, values: [itemId] })
        if (rowCount !== 1) throw new Error(`item ${itemId} was not pending`)
      },
    }
    // As ours, which writes no line for an item that went well.
    runner = await startGraphile(options, taskList, () => (level, message) => {
      if (level === 'error' || level === 'warning') console.error(message)
    })
  },
}
export type GraphileCommands = typeof offered

answerParent(offered, async () => runner?.stop())
