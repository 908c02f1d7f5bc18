/**
 * What all commands have in common: both names, `--json`, examples in the help, loading and closing the host, tables,
 * progress, exit codes.
 *
 * Rule: docs/commands.md.
 */
import CliTable from 'cli-table3'
import type { Command } from 'commander'
import type { Integrations } from '../../create-integrations.ts'
import { plain } from './plain.ts'

/** Questions to whoever sits there. Each throws {@link Interrupted} when it is broken off. */
export interface Prompts {
  /** A line of text; `check` says what is wrong with it. */
  text(
    question: string,
    options?: { initial?: string; check?: (answer: string) => string | undefined },
  ): Promise<string>
  /** As `text()`, unseen. */
  password(question: string, options?: { check?: (answer: string) => string | undefined }): Promise<string>
  confirm(question: string, options?: { initial?: boolean }): Promise<boolean>
}

/** Where a command reads and writes. Tests give their own. */
export interface Terminal {
  /** The result, and nothing else. */
  readonly out: (text: string) => void
  /** Progress, warnings, prompts, errors. */
  readonly err: (text: string) => void
  /** No prompts, no live progress: no TTY, `CI`, or `--no-interactive`. */
  readonly isInteractive: boolean
  /** Characters in a line of what `err` writes to. */
  readonly columns: () => number
  /** Used only where `isInteractive`. */
  readonly prompts: Prompts
  /** What a value may be read from instead of the command line. */
  readonly sources: TextSources
}

export interface TextSources {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The text of a file. */
  readonly file: (path: string) => string
  /** All of stdin. */
  readonly stdin: () => Promise<string>
}

/** What a command knows that needs no host. */
export interface HostlessContext {
  readonly terminal: Terminal
  /** `--json` was given. */
  readonly json: boolean
  /** Who is asking, for logs: `cli:<user>`, or `workflow:<id>` inside a worker. */
  readonly by: string
  /** Aborted by Ctrl-C. The command is given up then in any case, inside a worker some time later; this is for work that can stop at a good place. */
  readonly signal: AbortSignal
  /** A line to stderr, only when somebody is looking. */
  progress(text: string): void
  /** A line to stderr, always. */
  warn(text: string): void
}

export interface CommandContext extends HostlessContext {
  readonly integrations: Integrations
}

/** What a command has to say. */
export interface Outcome {
  /** What `--json` prints. Column names in snake_case. */
  readonly document: unknown
  /** What it prints otherwise. */
  readonly text: string
  /** 1 when a part failed; default 0. */
  readonly exitCode?: 0 | 1
}

export interface ActionOptions {
  /** Default `tables`. */
  readonly needs?: 'nothing' | 'tables'
  /** Watches the context's signal: at Ctrl-C it gets a moment to put things in order. Default false. */
  readonly stopsItself?: boolean
}

export interface Frame {
  /** A command under `name` and `integrations:name`, with `--json`, and with these examples in its help. */
  command(name: string, summary: string, examples: readonly string[]): Command
  /**
   * The action of a command. `needs`: `nothing` loads the host only; `tables` also checks Postgres, migrations and keys
   * (the default).
   */
  action<Args extends unknown[]>(
    work: (context: CommandContext, ...args: Args) => Promise<Outcome>,
    options?: ActionOptions,
  ): (...args: [...Args, ...unknown[]]) => Promise<void>
  /** The action of a command that neither needs nor loads the host. */
  actionWithoutHost<Args extends unknown[]>(
    work: (context: HostlessContext, ...args: Args) => Promise<Outcome>,
  ): (...args: [...Args, ...unknown[]]) => Promise<void>
}

/** No borders: a line is a row, so that `grep` and `awk` work on it. */
const NO_BORDERS = Object.fromEntries(
  [
    ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
    ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'],
  ].map((part) => [part, '']),
)

/** Rows as a table with these columns; control characters of foreign text are stripped, null is `-`. */
export function table(columns: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const drawn = new CliTable({
    head: columns.map(plain),
    chars: { ...NO_BORDERS, middle: '  ' },
    colAligns: columns.map((_, column) => (isNumeric(rows, column) ? 'right' : 'left')),
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  })
  for (const row of rows) drawn.push(row.map(cell))
  return drawn
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
}

function isNumeric(rows: readonly (readonly unknown[])[], column: number): boolean {
  const values = rows.map((row) => row[column]).filter((value) => value !== null && value !== undefined)
  return values.length > 0 && values.every((value) => typeof value === 'number')
}

function cell(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-'
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return plain(typeof value === 'object' ? JSON.stringify(value) : String(value))
}
