/** What a child process prints until it ends. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

export interface Output {
  /** Null: a signal ended it. */
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export async function outputOf(child: ChildProcess): Promise<Output> {
  let out = ''
  let err = ''
  child.stdout?.on('data', (chunk) => {
    out += chunk
  })
  child.stderr?.on('data', (chunk) => {
    err += chunk
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, err }
}
