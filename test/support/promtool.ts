/**
 * Prometheus' own `promtool test rules`, built by Go once, into the cache folder: promtool's unittest.go from the module proxy, with
 * scripts/promtool/main.go in the place of the rest, which has the service discovery of every cloud and takes many times as long.
 *
 * Source: https://github.com/prometheus/prometheus/tree/main/cmd/promtool.
 */
import { createHash } from 'node:crypto'
import { accessSync, constants, readFileSync } from 'node:fs'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'

const SOURCE = fileURLToPath(new URL('../../scripts/promtool/', import.meta.url))
const FILES = ['main.go', 'go.mod', 'go.sum']
const MODULE = 'github.com/prometheus/prometheus'
const BUILD_SECONDS = 1_200

type Log = (line: string) => void

/** Path of the binary, which takes files with tests. Built if there is none: minutes. */
export async function findPromtool({ log = () => {} }: { log?: Log } = {}): Promise<string> {
  const path = place()
  return (
    presentPromtool() ??
    oneAtATime(`${path}.lock`, log, async () => {
      if (presentPromtool() !== null) return path
      log('building promtool with Go (minutes, once)')
      const sources = await mkdtemp(join(tmpdir(), 'durable-promtool-'))
      try {
        await inNewFolder(path, (folder) => build(sources, join(folder, 'promtool')))
      } finally {
        await rm(sources, { recursive: true, force: true })
      }
      return path
    })
  )
}

async function build(sources: string, binary: string): Promise<string> {
  for (const file of FILES) await copyFile(join(SOURCE, file), join(sources, file))
  // CGO off: no C compiler is needed.
  const go = (...args: string[]): Promise<string> => ran(['go', ...args], sources)
  await go('mod', 'download', MODULE)
  const module = (await go('list', '-m', '-f', '{{.Dir}}', MODULE)).trim()
  await copyFile(join(module, 'cmd', 'promtool', 'unittest.go'), join(sources, 'unittest.go'))
  await go('build', '-mod=readonly', '-o', binary, '.')
  return binary
}

async function ran([command = '', ...args]: string[], cwd: string): Promise<string> {
  const { code, output } = await run(command, args, {
    env: { ...process.env, CGO_ENABLED: '0' },
    cwd,
    seconds: BUILD_SECONDS,
  })
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} in scripts/promtool: ${output.trim().slice(-1_000)}`)
  return output
}

/** The same without building: null when this machine has none of these sources yet. */
function presentPromtool(): string | null {
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
  return join(cacheFolder(), 'bin', `promtool-${hash.digest('hex').slice(0, 12)}`)
}
