/**
 * A Postgres with the tools of its own version beside it: `pg_dump` refuses a newer server, and what npm brings has no tools.
 * Debian's package `postgresql` has both.
 */
import { existsSync, readdirSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { run } from '../../dev/local-process.ts'
import { freePort } from '../../src/bin/free-port.ts'
import { until } from '../e2e/own-stack.ts'
import type { DeployedProcess } from './deployed-process.ts'
import { startDeployed } from './deployed-process.ts'

const DEBIAN = '/usr/lib/postgresql'
const NEEDED = ['initdb', 'postgres', 'pg_dump', 'pg_restore', 'createdb']
/** Postgres refuses to run as root. */
const NOBODY = 65_534
const TOOL_SECONDS = 120

export interface ToolPostgres {
  readonly version: string
  urlOf(database: string): string
  /** Runs one of its tools. @throws when it does not end with 0 */
  tool(name: string, ...args: readonly string[]): Promise<string>
  stop(): Promise<void>
}

export async function startToolPostgres(folder: string): Promise<ToolPostgres> {
  const bin = findTools()
  const isRoot = process.getuid?.() === 0
  const prefix = isRoot ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] : []
  const data = join(folder, 'data')
  await mkdir(data, { recursive: true, mode: 0o700 })
  if (isRoot) await chown(data, NOBODY, NOBODY)
  const env = { PATH: `${bin}${delimiter}${process.env.PATH}`, LC_ALL: 'C', PGTZ: 'UTC' }
  const initdb = [
    ...prefix,
    join(bin, 'initdb'),
    '--pgdata',
    data,
    '--username',
    'postgres',
    '--auth',
    'trust',
    '--encoding',
    'UTF8',
  ]
  await toEnd(initdb, env)
  const port = await freePort()
  const settings = ['-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=']
  const server: DeployedProcess = startDeployed([join(bin, 'postgres'), '-D', data, ...settings], {
    cwd: folder,
    env,
    prefix,
  })
  const tools = { ...env, PGHOST: '127.0.0.1', PGPORT: String(port), PGUSER: 'postgres' }
  await until('Postgres takes connections', async () => {
    return (await run(join(bin, 'pg_isready'), [], { env: tools, seconds: 10 })).code === 0
  })
  return {
    version: await toEnd([join(bin, 'pg_dump'), '--version'], env),
    urlOf: (database) => `postgres://postgres@127.0.0.1:${port}/${database}`,
    tool: (name, ...args) => toEnd([join(bin, name), ...args], tools),
    async stop() {
      await server.kill()
    },
  }
}

function findTools(): string {
  const debian = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : []
  const folders = [
    ...debian.map((version) => join(DEBIAN, version, 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
  ]
  const found = folders.find((folder) => NEEDED.every((name) => existsSync(join(folder, name))))
  if (found === undefined)
    throw new Error(`No Postgres with ${NEEDED.join(', ')} beside it was found. On Debian: apt-get install postgresql`)
  return found
}

async function toEnd([command = '', ...args]: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const { code, output } = await run(command, args, { env, cwd: dirname('/'), seconds: TOOL_SECONDS })
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${output.trim().slice(-2_000)}`)
  return output.trim()
}
