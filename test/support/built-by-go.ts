/** Programs that tests need and that Go builds, once, into the cache folder. */
import { createHash } from 'node:crypto'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'

interface BuiltByGo {
  /** Path of the binary. Built if there is none. */
  readonly find: (options?: { log?: (line: string) => void }) => Promise<string>
  /** The same without building: null when this machine has none of this version. */
  readonly present: () => string | null
}

/** Runs `go` in this folder. @returns what it printed @throws when it fails */
export type Go = (args: readonly string[], cwd: string, env?: NodeJS.ProcessEnv) => Promise<string>

interface Source {
  readonly name: string
  readonly version: string
  /** How long a build takes, for a person: `10 s`. */
  readonly takes: string
  readonly maxSeconds: number
  /** What to do where it fails. */
  readonly remedy?: string
  /** @param folder a new one, which is deleted after @returns path of the binary in it */
  readonly build: (go: Go, folder: string) => Promise<string>
}

export function builtByGo({ name, version, takes, maxSeconds, remedy = '', build }: Source): BuiltByGo {
  const place = (): string => join(cacheFolder(), 'bin', `${name}-${version}`)
  const present = (): string | null => {
    try {
      accessSync(place(), constants.X_OK)
      return place()
    } catch {
      return null
    }
  }
  const go: Go = async (args, cwd, env = {}) => {
    // CGO off: no C compiler is needed.
    const surroundings = { ...process.env, CGO_ENABLED: '0', ...env }
    const { code, output } = await run('go', args, { env: surroundings, cwd, seconds: maxSeconds })
    if (code !== 0) throw new Error(`${name}: go ${args.join(' ')}: ${output.trim().slice(-1_000)}. ${remedy}`.trim())
    return output
  }
  return {
    present,
    async find({ log = () => {} } = {}) {
      const path = place()
      const building = async (): Promise<string> => {
        if (present() !== null) return path
        log(`building ${name} with Go (${takes}, once)`)
        await inNewFolder(path, (folder) => build(go, folder))
        return path
      }
      return present() ?? oneAtATime(`${path}.lock`, log, building)
    },
  }
}

/** A module of ours that lies in this folder. */
export function moduleOfOurs(source: string, { name, ...rest }: Pick<Source, 'name' | 'takes' | 'remedy'>): BuiltByGo {
  return builtByGo({
    name,
    version: versionOf(source),
    maxSeconds: 600,
    ...rest,
    async build(go, folder) {
      const binary = join(folder, name)
      await go(['build', '-mod=readonly', '-o', binary, '.'], source)
      return binary
    },
  })
}

/** Follows from the texts of a folder's files. */
export function versionOf(source: string): string {
  const hash = createHash('sha256')
  for (const file of readdirSync(source).sort()) hash.update(readFileSync(join(source, file)))
  return hash.digest('hex').slice(0, 12)
}
