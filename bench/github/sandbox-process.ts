/** Our GitHub sandbox, away from the process that is measured. */
import type { RunningSandbox } from '../../sandbox/github/server.ts'
import { startGithubSandbox } from '../../sandbox/github/server.ts'
import { answerParent } from '../child.ts'

let sandbox: RunningSandbox | undefined

const offered = {
  async start({ entries }: { entries: number }): Promise<string> {
    sandbox = await startGithubSandbox({ entries })
    return sandbox.url
  },
}
export type SandboxCommands = typeof offered

answerParent(offered, async () => sandbox?.close())
