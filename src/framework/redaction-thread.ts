/**
 * Redaction of a large body in a thread of its own, so that one answer does not hold up all others.
 *
 * The thread is started from the source of `createRedactor()`, and not from a file: so it is the same where tsx or a test runner
 * compiles the source, in a release, and inside a host's bundle, which holds no second file.
 * Why: docs/decisions/0032-redaction.md.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { REDACTOR } from './redaction.ts'
import type { Redactor } from './redactor.ts'
import { createRedactor } from './redactor.ts'

/** In characters. What is shorter takes some tens of milliseconds at worst. */
export const LARGE_LENGTH = 1_048_576

/** Each holds a copy of its body, and takes a core. */
const MAX_THREADS = 2
/** Waiting included. 10 MiB take a few seconds at worst; a settlement must not wait for ever. */
const MAX_WAIT_MS = 60_000
/** Of each thread, beside the body itself: what parses a body of 10 MiB at worst. One that needs more ends, and the process does not. */
const MAX_HEAP_MIB = 512

/** esbuild, with the option `keepNames` that tsx sets, wraps each function in a call of `__name`. */
const SOURCE = `
const { parentPort, workerData } = require('node:worker_threads')
const __name = (value) => value
const redactor = (${createRedactor.toString()})()
parentPort.postMessage(redactor[workerData.task](...workerData.given))
`

let running = 0
const waiting: (() => void)[] = []

/**
 * Here when the text is short, in a thread when it is large.
 *
 * @param text what is large of what is given
 * @throws whatever ends the thread: its memory, its time, a host that allows no threads
 */
export async function redacted<Task extends keyof Redactor>(
  text: string,
  task: Task,
  ...given: Parameters<Redactor[Task]>
): Promise<ReturnType<Redactor[Task]>> {
  if (text.length <= LARGE_LENGTH) {
    const work = REDACTOR[task] as (...args: unknown[]) => ReturnType<Redactor[Task]>
    return work(...given)
  }
  const deadline = performance.now() + MAX_WAIT_MS
  if (running >= MAX_THREADS) await new Promise<void>((resolve) => waiting.push(resolve))
  else running += 1
  try {
    const answer = await inThread(task, given, deadline - performance.now())
    // To have read a large answer takes a turn of its own; what is done with it, another.
    await nextTurn()
    return answer as ReturnType<Redactor[Task]>
  } finally {
    const next = waiting.shift()
    if (next === undefined) running -= 1
    else next()
  }
}

async function inThread(task: string, given: readonly unknown[], timeoutMs: number): Promise<unknown> {
  if (timeoutMs <= 0) throw new Error('no thread was free in time')
  const thread = new Worker(SOURCE, {
    eval: true,
    workerData: { task, given },
    // It needs none of what this process was started with, loaders among them.
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
  })
  let timer: NodeJS.Timeout | undefined
  try {
    return await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error('the thread took too long')), timeoutMs)
      thread.once('message', resolve)
      thread.once('error', reject)
      thread.once('exit', () => reject(new Error('the thread ended without an answer')))
    })
  } finally {
    clearTimeout(timer)
    void thread.terminate()
  }
}
