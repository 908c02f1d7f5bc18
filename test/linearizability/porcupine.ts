/**
 * The judge of histories (test/model/porcupine/).
 *
 * Source: https://github.com/anishathalye/porcupine.
 */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { moduleOfOurs } from '../support/built-by-go.ts'

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
  /** By `return` at the latest it has taken effect, or it never does. */
  readonly failed?: true | undefined
}

export interface Verdict {
  readonly object: string
  readonly model: string
  readonly operations: number
  readonly pending: number
  readonly verdict: 'legal' | 'illegal' | 'undecided'
  readonly stuck?: string
}

export const { find: findPorcupine, present: presentPorcupine } = moduleOfOurs(
  fileURLToPath(new URL('../model/porcupine/', import.meta.url)),
  {
    name: 'porcupine',
    takes: '10 s',
    remedy: 'Histories are judged by a program in Go: install Go 1.24 or later (https://go.dev/doc/install).',
  },
)

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
