/** Does what a tutorial says, as it stands. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Step } from './steps.ts'
import { patternOf, settled, stepsOf } from './steps.ts'
import type { Terminal } from './terminal.ts'
import { openTerminal } from './terminal.ts'

const BLOCK_MS = 300_000
/** How long a reader looks again for what comes by itself, such as a webhook's end. */
const LOOK_AGAIN_MS = 30_000
const LOOK_EACH_MS = 300
/** Commands that only look: running them again changes nothing. */
const LOOKS = /^(cat|grep|npx integrations (list|show|requests|health|doctor|logs|failures)|npx tsx \S*list-\S+)\b/

export interface Reader {
  /** Where the page's first command runs: the folder that has `durable-integrations`, the clone, in it. */
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  /** Steps that the surroundings have taken already, such as `npm ci && npm start` in the clone. */
  readonly isDone?: (commands: string) => boolean
}

/** @throws at the first step that does not do what the page says, with the page's line */
export async function follow(page: string, { folder, env, isDone = () => false }: Reader): Promise<void> {
  const terminal = openTerminal({ folder, env, timeoutMs: BLOCK_MS })
  try {
    for (const step of stepsOf(await readFile(page, 'utf8'))) {
      if (step.kind === 'commands' && isDone(step.text)) continue
      await take(step, terminal).catch((cause: unknown) => {
        throw new Error(`${page}:${step.line}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
      })
    }
  } finally {
    await terminal.close()
  }
}

async function take(step: Step, terminal: Terminal): Promise<void> {
  if (step.kind === 'file') {
    // The reader has the project's folder open: where the terminal is now.
    const path = join((await terminal.run('pwd')).trim(), step.path)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, step.text)
    return
  }
  const { text, prints } = step
  const until = performance.now() + (onlyLooks(text) ? LOOK_AGAIN_MS : 0)
  for (;;) {
    const printed = await terminal.run(text)
    if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${text}${printed}`)
    if (prints === null || patternOf(prints).test(settled(printed))) return
    if (performance.now() > until) throw new Error(`printed\n${printed}\nand not\n${prints}`)
    await sleep(LOOK_EACH_MS)
  }
}

function onlyLooks(commands: string): boolean {
  const lines = commands.trim().split('\n')
  return lines.every((line) => LOOKS.test(line))
}
