/** Knows when a host's transaction is open. Rule: docs/behaviour/requests.md, "Inside a transaction". */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Database, Transaction } from '../db/client.ts'
import type { Framework } from './context.ts'

/** Any Drizzle database of a host's. */
export interface HasTransactions {
  // biome-ignore lint/suspicious/noExplicitAny: each driver has its own types of transaction; none is looked at
  transaction(work: (tx: any) => Promise<any>, ...config: any[]): Promise<any>
}

interface OpenTransaction {
  /** False once it has been committed or rolled back: work that was left behind is no longer inside it. */
  isOpen: boolean
  readonly outer: OpenTransaction | undefined
  /** The database that it was begun on, by itself or by an outer one. */
  readonly home: object
  /** Null until it has begun. */
  tx: HasTransactions | null
  /** The inner one that was asked for last: they share a connection, so they come one after the other. */
  lastInner: Promise<unknown>
  readonly ended: Promise<void>
  /** What is kept to its end: when it was taken, and when it was given back. */
  readonly kept: Map<string, { readonly taken: Promise<void>; readonly givenBack: Promise<void> }>
}

const current = new AsyncLocalStorage<OpenTransaction>()

/** What is tracked already. */
const tracked = new WeakSet<object>()

/** Innermost first. @param home only those of this database */
function openTransactions(home?: object): OpenTransaction[] {
  const open: OpenTransaction[] = []
  for (let each = current.getStore(); each !== undefined; each = each.outer)
    if (each.isOpen && (home === undefined || each.home === home)) open.push(each)
  return open
}

export function isInsideTransaction(): boolean {
  return openTransactions().length > 0
}

/** What the models are read and written by: the transaction that the host has open on them, if it has one. */
export function modelConnection({ modelDb }: Framework): Database | Transaction {
  return (openTransactions(modelDb)[0]?.tx ?? modelDb) as Database | Transaction
}

/** Runs the work in a transaction of the models' pool, and knows of it. Inside another one it is an inner one of that. */
export function runInTransaction<T>({ modelDb }: Framework, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const host = openTransactions(modelDb)[0]
  const tx = host?.tx ?? null
  if (host === undefined || tx === null)
    return known(modelDb, (inside) => modelDb.transaction((begun) => inside(begun, work)))
  const inner = host.lastInner.then(() => tx.transaction(work) as Promise<T>)
  host.lastInner = inner.catch(() => {})
  return inner
}

/**
 * Keeps something, such as a lock, until the outermost transaction of the models ends: before its commit no other connection sees
 * what was written under it. False: no transaction is open, and nothing was kept.
 *
 * @param keep takes it, says so, and gives it back when the transaction has ended
 */
export async function keepToTransactionsEnd(
  { modelDb }: Framework,
  name: string,
  keep: (taken: () => void, ended: Promise<void>) => Promise<void>,
): Promise<boolean> {
  const host = openTransactions(modelDb).at(-1)
  if (host === undefined) return false
  const before = host.kept.get(name)
  if (before !== undefined) return before.taken.then(() => true)
  let givenBack: Promise<void> = Promise.resolve()
  const taken = new Promise<void>((resolve, reject) => {
    givenBack = keep(resolve, host.ended).catch((error: unknown) => {
      host.kept.delete(name)
      reject(error)
    })
  })
  host.kept.set(name, { taken, givenBack })
  await taken
  return true
}

/** The same database; its transactions are known from now on. */
export function trackTransactions<DB extends HasTransactions>(db: DB): DB {
  return track(db, db)
}

function track<DB extends HasTransactions>(db: DB, home: object): DB {
  if (tracked.has(db)) return db
  tracked.add(db)
  const begin = db.transaction.bind(db)
  db.transaction = (work, ...config) => known(home, (inside) => begin((tx) => inside(tx, work), ...config))
  return db
}

type Inside = <TX extends HasTransactions, R>(tx: TX, work: (tx: TX) => Promise<R>) => Promise<R>

/** @param begin opens the transaction, and runs `inside` it what belongs there */
async function known<T>(home: object, begin: (inside: Inside) => Promise<T>): Promise<T> {
  let end = (): void => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const outer = current.getStore()
  const open: OpenTransaction = {
    isOpen: true,
    outer,
    home,
    tx: null,
    lastInner: Promise.resolve(),
    ended,
    kept: new Map(),
  }
  try {
    return await begin((tx, work) => {
      open.tx = tx
      return current.run(open, () => work(track(tx, home)))
    })
  } finally {
    open.isOpen = false
    end()
    await Promise.all([...open.kept.values()].map(({ givenBack }) => givenBack))
  }
}
