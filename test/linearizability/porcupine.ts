/**
 * The judge of histories (test/model/porcupine/), built by Go once, into the cache folder.
 *
 * Source: https://github.com/anishathalye/porcupine.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'

const SOURCE = fileURLToPath(new URL('../model/porcupine/', import.meta.url))
const BUILD_SECONDS = 600

type Log = (line: string) => void

/** An operation, as the judge reads it: test/model/porcupine/main.go. */
export interface Operation {
  readonly object: string
  readonly model: string
  readonly client: number
  readonly call: number
  readonly return: number | null
  readonly callMs: number
  readonly returnMs: number
  readonly input: Readonly<Record<string, unknown>>
  readonly output: Readonly<Record<string, unknown>>
}

export interface Verdict {
  readonly object: string
  readonly model: string
  readonly operations: number
  readonly pending: number
  readonly verdict: 'legal' | 'illegal' | 'undecided'
  readonly stuck?: string
}

/** Path of the judge. Built if there is none: some seconds. */
export async function findPorcupine({ log = () => {} }: { log?: Log } = {}): Promise<string> {
  const path = place()
  return (
    presentPorcupine() ??
    oneAtATime(`${path}.lock`, log, async () => {
      if (presentPorcupine() !== null) return path
      log('building the judge of histories with Go (10 s, once)')
      await inNewFolder(path, async (folder) => {
        const binary = join(folder, 'porcupine')
        const built = await run('go', ['build', '-mod=readonly', '-o', binary, '.'], {
          // CGO off: no C compiler is needed.
          env: { ...process.env, CGO_ENABLED: '0' },
          cwd: SOURCE,
          seconds: BUILD_SECONDS,
        })
        if (built.code !== 0)
          throw new Error(
            `Histories are judged by a program in Go, and it can't be built: install Go 1.24 or later (https://go.dev/doc/install). go build in test/model/porcupine: ${built.output.trim().slice(-1_000)}`,
          )
        return binary
      })
      return path
    })
  )
}

/** The same without building: null when this machine has none of these sources yet. */
export function presentPorcupine(): string | null {
  try {
    accessSync(place(), constants.X_OK)
    return place()
  } catch {
    return null
  }
}

function place(): string {
  const hash = createHash('sha256')
  for (const file of readdirSync(SOURCE).toSorted()) hash.update(readFileSync(join(SOURCE, file)))
  return join(cacheFolder(), 'bin', `porcupine-${hash.digest('hex').slice(0, 12)}`)
}

/** One verdict an object. */
export async function judge(program: string, operations: readonly Operation[]): Promise<Verdict[]> {
  const child = spawn(program, [], { stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.end(operations.map((operation) => `${JSON.stringify(operation)}\n`).join(''))
  const [answers, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<unknown[]>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (...exit) => resolve(exit))
    }),
  ])
  if (code !== 0) throw new Error(`the judge of histories ended with ${String(code)}: ${errors}`)
  return answers
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Verdict)
}
