/**
 * A Postgres in this process: PGlite, the server's own code compiled to WebAssembly, reached over streams in memory.
 *
 * Why it and no fake: docs/decisions/0011-testing-kit.md.
 */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { MemoryFS, PGlite, PGliteOptions } from '@electric-sql/pglite'
import type { Clock } from '../../framework/logger.ts'
import { EmbeddedDatabaseMissing } from '../testing-errors.ts'
import { CREATE_CLOCK, clockKeeper, useClock } from './clock.ts'
import type { Backend, Exchanges } from './shared-session.ts'
import { SharedSession } from './shared-session.ts'
import type { SnapshotFile } from './snapshot.ts'
import { fileSystemOf, filesIn, readSnapshot, snapshotPath, writeSnapshot } from './snapshot.ts'
import { Connection } from './wire-connection.ts'
import { startup } from './wire-messages.ts'

const NAME = 'postgres'
/** Its memory is cleared at each start, and the usual 128 MB took an eighth of it (PGlite 0.5.16, two cores). */
const SMALL = ['-c', 'shared_buffers=16MB']

type WasmModule = NonNullable<PGliteOptions['pgliteWasmModule']>
/** A global of Node.js that TypeScript declares with the browser's only. https://nodejs.org/api/globals.html#webassembly */
declare const WebAssembly: { compile(bytes: Uint8Array): Promise<WasmModule> }

export interface InProcessPostgres {
  /**
   * A new connection, for the option `socket` of postgres.js.
   *
   * @param through stands between the connection and the session. Default: nothing
   */
  connect(through?: (session: Exchanges) => Exchanges): Connection
  close(): Promise<void>
}

export interface InProcessPostgresOptions {
  readonly clock: Clock
  /** Where the tables are: a snapshot fits no other place. */
  readonly prefix: string
  readonly schema: string
  /** After how long a statement that waits for another connection's idle transaction fails. */
  readonly blockedAfterMs?: number
  /** Called around each exchange with the database's own code, which reads the machine's clock and sets timers. */
  readonly around?: <T>(exchange: () => T) => T
}

/**
 * @param migrate brings a new database up to this code, over connections of its own
 * @throws EmbeddedDatabaseMissing
 */
export async function startPostgres(
  options: InProcessPostgresOptions,
  migrate: (database: InProcessPostgres) => Promise<unknown>,
): Promise<InProcessPostgres> {
  // Its name needs PGlite's version: where PGlite is missing, loadPGlite() is to say so.
  const snapshot = snapshotOf(options)
  snapshot.catch(() => {})
  const { PGlite, MemoryFS, pgliteWasmModule } = await loadPGlite()
  const { path, files } = await snapshot
  const start = async (fs?: MemoryFS): Promise<PGlite> => {
    const startParams = [...PGlite.defaultStartParams, ...SMALL]
    const pglite = new (withoutArrayTypes(PGlite))({ startParams, pgliteWasmModule, ...(fs && { fs }) })
    await pglite.waitReady
    return pglite
  }
  if (files !== null) return open(await start(fileSystemOf(MemoryFS, files)), options)

  const pglite = await start()
  await pglite.exec(CREATE_CLOCK)
  const database = await open(pglite, options)
  await migrate(database)
  // What is in the files need not be recovered from the log at each start.
  await pglite.exec('checkpoint')
  await writeSnapshot(path, await pglite.dumpDataDir('none'))
  return database
}

/** A file that was cut off (a full disk, a copied cache) is replaced as if there were none. */
async function snapshotOf(options: InProcessPostgresOptions): Promise<{ path: string; files: SnapshotFile[] | null }> {
  const path = await snapshotPath(options)
  const snapshot = await readSnapshot(path)
  return { path, files: snapshot === null ? null : filesIn(snapshot) }
}

/** PGlite's `query()` needs them, and asks for them at each start; it is not called here. */
function withoutArrayTypes(Base: typeof PGlite): typeof PGlite {
  return class extends Base {
    override async _initArrayTypes(): Promise<void> {}
  }
}

async function open(
  pglite: PGlite,
  { clock, blockedAfterMs, around }: InProcessPostgresOptions,
): Promise<InProcessPostgres> {
  await pglite.exec(useClock(clock))
  const greeting = Buffer.from(await pglite.execProtocolRaw(startup(NAME, NAME)))
  const backend: Backend =
    around === undefined
      ? pglite
      : { execProtocolRaw: async (message) => around(() => pglite.execProtocolRawSync(message)) }
  const session = new SharedSession(backend, clockKeeper(clock), blockedAfterMs)
  return {
    connect: (through = (direct) => direct) => new Connection(through(session), greeting),
    close: () => pglite.close(),
  }
}

async function loadPGlite() {
  try {
    const [pglite, pgliteWasmModule] = await Promise.all([import('@electric-sql/pglite'), compileWasm()])
    return { ...pglite, pgliteWasmModule }
  } catch (cause) {
    throw new EmbeddedDatabaseMissing({ cause })
  }
}

/** By threads of V8's own, while this one reads PGlite's JavaScript: PGlite would begin it only after that. */
async function compileWasm(): Promise<WasmModule> {
  return WebAssembly.compile(await readFile(createRequire(import.meta.url).resolve('@electric-sql/pglite/pglite.wasm')))
}
