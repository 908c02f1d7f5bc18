/**
 * A child process of a bench, asked by name: `start` first, whatever else it offers afterwards.
 *
 * It runs with this process's own options, so TypeScript runs there, too, and it ends when this one is gone. What it logs
 * goes to a file, as a service's does; its last lines are shown when it ends before its time.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'

/** What a child offers. Arguments and answers travel as JSON. */
export type Commands = Readonly<Record<string, (argument: never) => Promise<unknown>>>

export interface Child<Offered extends Commands> {
  ask<Name extends keyof Offered & string>(
    name: Name,
    argument: Parameters<Offered[Name]>[0],
  ): Promise<Awaited<ReturnType<Offered[Name]>>>
  stop(): Promise<void>
}

interface Question {
  readonly number: number
  readonly name: string
  readonly argument: unknown
}

type Answer = { readonly number: number; readonly value: unknown } | { readonly number: number; readonly error: string }

const STOP_MS = 15_000
const LAST_LINES = 20

/** @param logFile what it writes to stdout */
export function startChild<Offered extends Commands>(
  script: URL,
  logFile: string,
  nodeOptions: readonly string[] = [],
): Child<Offered> {
  const log = openSync(logFile, 'a')
  const child = fork(script, {
    stdio: ['ignore', log, 'inherit', 'ipc'],
    execArgv: [...process.execArgv, ...nodeOptions],
  })
  closeSync(log)
  const exited = once(child, 'exit')
  const waiting = new Map<number, { resolve(value: never): void; reject(error: Error): void }>()
  let asked = 0
  child.on('message', (answer: Answer) => {
    const asker = waiting.get(answer.number)
    waiting.delete(answer.number)
    if ('error' in answer) asker?.reject(new Error(answer.error))
    else asker?.resolve(answer.value as never)
  })
  void exited.then(() => {
    const tail = readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-LAST_LINES).join('\n')
    for (const { reject } of waiting.values())
      reject(new Error(`${script.pathname} ended (${child.signalCode ?? child.exitCode}):\n${tail}`))
    waiting.clear()
  })
  return {
    ask: (name, argument) =>
      new Promise((resolve, reject) => {
        if (child.exitCode !== null || child.signalCode !== null || !child.connected)
          return reject(new Error(`${script.pathname} has ended (${child.signalCode ?? child.exitCode})`))
        asked += 1
        waiting.set(asked, { resolve, reject })
        child.send({ number: asked, name, argument } satisfies Question)
      }),
    async stop() {
      if (child.connected) child.disconnect()
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      await exited
      clearTimeout(timer)
    },
  }
}

/** The child's side. @param stop called when the parent is gone, or wants the end */
export function answerParent(offered: Commands, stop: () => Promise<void>): void {
  process.on('message', ({ number, name, argument }: Question) => {
    const command = offered[name] as ((argument: unknown) => Promise<unknown>) | undefined
    const answer = command === undefined ? Promise.reject(new Error(`no command ${name}`)) : command(argument)
    answer.then(
      (value) => process.send?.({ number, value } satisfies Answer),
      (error: unknown) => {
        const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
        process.send?.({ number, error: text } satisfies Answer)
      },
    )
  })
  process.on('disconnect', () => void stop().finally(() => process.exit(0)))
}
