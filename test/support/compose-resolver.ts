/**
 * Docker Compose's own reader of its files (scripts/compose/main.go), built by Go once, into the cache folder. No engine is needed.
 *
 * Source: https://github.com/compose-spec/compose-go.
 */
import { createHash } from 'node:crypto'
import { accessSync, constants, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'

const SOURCE = fileURLToPath(new URL('../../scripts/compose/', import.meta.url))
const FILES = ['main.go', 'go.mod', 'go.sum']
const BUILD_SECONDS = 600

type Log = (line: string) => void

/** Path of the binary. Built if there is none: 10 s. */
export async function findComposeResolver({ log = () => {} }: { log?: Log } = {}): Promise<string> {
  const path = place()
  return (
    presentComposeResolver() ??
    oneAtATime(`${path}.lock`, log, async () => {
      if (presentComposeResolver() !== null) return path
      log('building the reader of Compose files with Go (10 s, once)')
      await inNewFolder(path, async (folder) => {
        const binary = join(folder, 'compose-resolver')
        const built = await run('go', ['build', '-mod=readonly', '-o', binary, '.'], {
          // CGO off: no C compiler is needed.
          env: { ...process.env, CGO_ENABLED: '0' },
          cwd: SOURCE,
          seconds: BUILD_SECONDS,
        })
        if (built.code !== 0) throw new Error(`go build in scripts/compose: ${built.output.trim().slice(-1_000)}`)
        return binary
      })
      return path
    })
  )
}

/** The same without building: null when this machine has none of these sources yet. */
export function presentComposeResolver(): string | null {
  try {
    accessSync(place(), constants.X_OK)
    return place()
  } catch {
    return null
  }
}

function place(): string {
  const hash = createHash('sha256')
  for (const file of FILES) hash.update(readFileSync(join(SOURCE, file)))
  return join(cacheFolder(), 'bin', `compose-resolver-${hash.digest('hex').slice(0, 12)}`)
}
