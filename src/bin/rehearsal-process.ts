/** The process of a rehearsal: loads a host on the database to play in, plays, and tells its parent. Started by play-host.ts. */
import type { RehearsalInput } from '../rehearsal/rehearsal-jobs.ts'
import { loadHost } from './host.ts'
import { network } from './network-off.ts'
import type { Told } from './play-host.ts'

process.on('disconnect', () => process.exit(1))
process.on('message', ({ input }: { input: RehearsalInput }) => {
  rehearse(input).then(
    () => process.exit(0),
    (error: unknown) => {
      const { name, message, stack = '' } = error instanceof Error ? error : new Error(String(error))
      const refused = network.take()
      void tell({ kind: 'failed', message: `${name}: ${message}`, stack, refused }).then(() => process.exit(1))
    },
  )
})
// A host's own connection in the background (a cache, a queue) must not end the rehearsal: it is refused, and that is all.
for (const event of ['uncaughtException', 'unhandledRejection'] as const)
  process.on(event, (error: unknown) => {
    if (isRefusal(error)) return
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
    process.exit(1)
  })

async function rehearse(input: RehearsalInput): Promise<void> {
  const { integrations } = await loadHost()
  // The new code may bring migrations of ours.
  await integrations.migrate()
  await integrations.ready()
  let toldAt = 0
  const recording = await integrations.admin.rehearsal.play(input, {
    refused: () => network.take(),
    // Never aborted: a rehearsal that is stopped ends with this process.
    signal: new AbortController().signal,
    progress(done, all) {
      if (performance.now() - toldAt < PROGRESS_MS) return
      toldAt = performance.now()
      void tell({ kind: 'progress', done, all })
    },
  })
  await tell({ kind: 'played', recording })
}

const PROGRESS_MS = 500

function tell(told: Told): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send?.(told, (error: Error | null) => (error === null ? resolve() : reject(error)))
  })
}

function isRefusal(error: unknown): boolean {
  for (let link = error; link instanceof Error; link = link.cause) if (link.name === 'NetworkIsOff') return true
  return false
}
