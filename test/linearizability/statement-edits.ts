/** Plants a bug into statements that are no function of the database: each is edited before this process sends it. */
import type { TransactionStatements } from '../../src/db/pool.ts'
import { Pool } from '../../src/db/pool.ts'

export interface StatementEdit {
  /** Only statements that hold this. */
  readonly where: string
  readonly replace: string
  readonly by: string
}

let edits: readonly StatementEdit[] = []
let edited = 0

/** From now on; an empty list ends it. @returns statements edited by the ones before */
export function editStatements(next: readonly StatementEdit[]): number {
  const before = edited
  edits = next
  edited = 0
  return before
}

function edit(text: string): string {
  let next = text
  for (const { where, replace, by } of edits) if (next.includes(where)) next = next.replaceAll(replace, by)
  if (next !== text) edited += 1
  return next
}

const { unsafe, begin } = Pool.prototype
Pool.prototype.unsafe = function (text, ...others) {
  return unsafe.call(this, edit(text), ...others)
}
Pool.prototype.begin = function (work) {
  return begin.call(this, (scope) => work(editing(scope))) as never
}

function editing(scope: TransactionStatements): TransactionStatements {
  return {
    unsafe: (text, ...others) => scope.unsafe(edit(text), ...others),
    savepoint: (work) => scope.savepoint((inner) => work(editing(inner))),
  }
}
