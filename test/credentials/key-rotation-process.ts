/**
 * A process of key-rotation.e2e.test.ts: `traffic <name>`, `rotate`, or `rotate-until-killed`. Database and keys come from the environment; it says
 * over IPC what it does, and ends when it is told `stop`.
 */

import { createIntegrations } from '../../src/create-integrations.ts'
import type { Json } from '../../src/framework/json.ts'

/** What a process says. */
export type Said =
  | { readonly kind: 'patched'; readonly patches: number }
  | { readonly kind: 'progress'; readonly done: number; readonly total: number }
  | { readonly kind: 'rotated'; readonly reencrypted: number; readonly failed: number; readonly keys: Json }
  /** What the traffic wrote last, by integration. */
  | { readonly kind: 'wrote'; readonly reads: number; readonly last: readonly (readonly [id: number, n: number])[] }
  | { readonly kind: 'failed'; readonly message: string }

const LANES = 2
/** So many patches between two words about them. */
const PATCHES_A_WORD = 10

const say = (said: Said): void => void process.send?.(said)

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({ providers: { plain: {} }, logger: silent })

let stopping = false
process.on('message', (message) => {
  if (message === 'stop') stopping = true
})
const orphaned = () => process.exit(1)
process.on('disconnect', orphaned)

/** Counts in each integration's credentials under the process's own name, and reads back what it wrote. */
async function traffic(name: string): Promise<void> {
  const ids: number[] = []
  for await (const { id } of integrations.list()) ids.push(id)
  const last = new Map<number, number>()
  let patches = 0
  let reads = 0
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      const own = ids.filter((_id, index) => index % LANES === lane)
      while (!stopping) {
        const id = own[Math.floor(Math.random() * own.length)] as number
        const n = (last.get(id) ?? 0) + 1
        await (await integrations.get(id)).updateCredentials({ [name]: n })
        last.set(id, n)
        patches += 1
        const read = (await integrations.get(id)).credentialsArray()
        reads += 1
        if (read[name] !== n || read.token !== `of ${id}`)
          throw new Error(`integration ${id}: ${name} wrote ${n} and read ${JSON.stringify(read)}`)
        if (patches % PATCHES_A_WORD === 0) say({ kind: 'patched', patches })
      }
    }),
  )
  say({ kind: 'wrote', reads, last: [...last] })
}

/** Until killed: it is killed in the second page, or at the end of it, never later. */
async function rotate({ untilKilled }: { untilKilled: boolean }): Promise<void> {
  let pages = 0
  const { reencrypted, failed, keys } = await integrations.admin.keys.rotate({
    onProgress: (progress) => {
      pages += 1
      if (untilKilled && pages === 2) stand()
      say({ kind: 'progress', ...progress })
    },
  })
  say({ kind: 'rotated', reencrypted, failed, keys: keys as unknown as Json })
}

function stand(): never {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000)
  throw new Error('nobody killed this process within a minute')
}

const [work, name = ''] = process.argv.slice(2)
try {
  await integrations.ready()
  await (work === 'traffic' ? traffic(name) : rotate({ untilKilled: work === 'rotate-until-killed' }))
} catch (error) {
  say({ kind: 'failed', message: String(error) })
  process.exitCode = 1
} finally {
  await integrations.close()
  process.off('disconnect', orphaned)
  process.disconnect?.()
}
