/** Command lines that mend, ready to be pasted into a POSIX shell with the host's environment. */
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PgTable } from 'drizzle-orm/pg-core'
import { getTableConfig } from 'drizzle-orm/pg-core'
import { shellWord } from '../../core/shell-word.ts'

/** Starts a worker in this shell: this very package's, which may lie in a host's node_modules or be a checkout. */
export function workerCommand(): string {
  const isSource = import.meta.url.endsWith('.ts')
  const worker = fileURLToPath(new URL(`../../bin/worker.${isSource ? 'ts' : 'js'}`, import.meta.url))
  return `node ${isSource ? '--conditions=durable-source --import tsx ' : ''}${shellWord(relative(process.cwd(), worker))}`
}

/** Runs SQL; what it names is a table's full name by {@link nameOf}. */
export function psqlCommand(sql: string): string {
  return `psql "$DATABASE_URL" -c ${shellWord(sql)}`
}

export function nameOf(table: PgTable): string {
  const { schema = 'public', name } = getTableConfig(table)
  return `"${schema.replaceAll('"', '""')}"."${name}"`
}
