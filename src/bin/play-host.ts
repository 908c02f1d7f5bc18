/** Plays a rehearsal in a process of its own: the host's module is loaded again there, and Node's network is off. */
import { fork } from 'node:child_process'
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { PlayHost } from '../commands/command.ts'
import { Refused } from '../commands/refused.ts'
import type { Recording } from '../rehearsal/rehearsal-jobs.ts'

export type Told =
  | { readonly kind: 'progress'; readonly done: number; readonly all: number }
  | { readonly kind: 'played'; readonly recording: Recording }
  | { readonly kind: 'failed'; readonly message: string; readonly stack: string; readonly refused: readonly string[] }

/** Beside this file, of the same kind: `.ts` in the repository, `.js` in a release. */
const beside = (name: string): string =>
  fileURLToPath(new URL(`./${name}${import.meta.url.slice(-3)}`, import.meta.url))

export const playHost: PlayHost = ({ config, databaseUrl, input, signal, onProgress }) =>
  new Promise((done, reject) => {
    const child = fork(beside('rehearsal-process'), [], {
      // Threads of the process are started with the same arguments.
      execArgv: [...process.execArgv, '--import', pathToFileURL(beside('network-off')).href],
      env: {
        ...process.env,
        DATABASE_URL: databaseUrl,
        ...(config === undefined ? {} : { INTEGRATIONS_CONFIG: resolve(config) }),
      },
      // What the host prints does not belong to the command's result.
      stdio: ['ignore', 2, 2, 'ipc'],
      signal,
    })
    let told: Told | undefined
    child.on('message', (message: Told) => {
      if (message.kind === 'progress') onProgress(message.done, message.all)
      else told = message
    })
    child.once('error', reject)
    child.once('exit', (code, ended) => {
      if (told?.kind === 'played') done(told.recording)
      else
        reject(
          new Refused('not_played', `The rehearsal of ${config ?? 'the host'} ended: ${reasonOf(told, code, ended)}`),
        )
    })
    child.send({ input })
  })

function reasonOf(told: Told | undefined, code: number | null, ended: string | null): string {
  if (told?.kind !== 'failed') return `its process ended with ${ended ?? `exit code ${code}`}.`
  const { message, refused } = told
  if (refused.length === 0) return message
  return `${message} Before that ${[...new Set(refused)].join(', ')} was refused: only the database of DATABASE_URL is within reach of a rehearsal, so the host has to take its database from there.`
}
