/**
 * What a command is. One file says it all; the command line, a workflow and an HTTP route are made from it, and so are the help,
 * the completion, the page about commands and the OpenAPI document.
 *
 * Rule: docs/commands.md, docs/behaviour/operator-api.md.
 */
import type { Command as Program } from 'commander'
import type { z } from 'zod'
import type { Limits, Scope } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import type { Recording, RehearsalInput } from '../rehearsal/rehearsal-jobs.ts'
import type { Scenario } from '../testing/simulation/scenario.ts'
import type { Simulated, SimulateOptions } from '../testing/simulation/seed-search.ts'
import { table } from './cli/table.ts'
import type { Terminal } from './cli/terminal.ts'
import type { Fields, Values } from './fields.ts'

/** In the order of the help. */
export const TOPICS = [
  'Set up',
  'Integrations',
  'OAuth',
  'Syncs',
  'Webhooks',
  'Trouble',
  'Records',
  'Access',
  'Development',
] as const
export type Topic = (typeof TOPICS)[number]

/** Kinds of records that a caller may be kept from. */
export type RecordKind = Parameters<Integrations['admin']['operator']['maySee']>[1]

/** How scenarios are loaded and played: the testing kit knows the API, which is made from the commands. */
export interface Simulation {
  /** Loads a module of the host's, TypeScript too. @param path absolute @throws what the module throws */
  readModule(path: string): Promise<Record<string, unknown>>
  search(scenario: Scenario, options: SimulateOptions): Promise<Simulated>
}

/** What a command knows that needs no host. */
export interface HostlessContext {
  readonly terminal: Terminal
  /** On the command line: the program in which the command stands. */
  readonly program?: Program | undefined
  /** Only the document is shown: `--json`, a workflow, HTTP. */
  readonly json: boolean
  /** Who is asking: a token's name, `cli:<user>`, or `workflow:<id>`. */
  readonly by: string
  /** From where: an IP address, a host, a workflow's id. */
  readonly from: string | undefined
  /** Aborted by Ctrl-C, a caller that hangs up, a worker that stops. */
  readonly signal: AbortSignal
  /** On the command line alone. */
  readonly simulation?: Simulation | undefined
  /** A line to stderr, only when somebody is looking. */
  progress(text: string): void
  /** A line to stderr; in the details of a workflow; over HTTP nowhere. */
  warn(text: string): void
}

/**
 * Serves the dashboard until the signal is aborted. @returns the address it had
 *
 * @throws Refused where it can't listen
 */
export type ServeDashboard = (
  integrations: Integrations,
  options: {
    readonly host: string
    /** 0: a free one. */
    readonly port: number
    /** The second address signs a browser in. */
    readonly token: string
    readonly signal: AbortSignal
    readonly onReady: (address: string, login: string) => void
  },
) => Promise<string>

/** Plays in a process of its own that has no network, but for this database. @throws Refused where the host can't be played */
export type PlayHost = (options: {
  /** The host's module; undefined: the one that the command line has. */
  readonly config: string | undefined
  readonly databaseUrl: string
  readonly input: RehearsalInput
  readonly signal: AbortSignal
  readonly onProgress: (done: number, all: number) => void
}) => Promise<Recording>

export interface CommandContext extends HostlessContext {
  /** On the command line alone. */
  readonly serve?: ServeDashboard | undefined
  /** The same. */
  readonly playHost?: PlayHost | undefined
  readonly integrations: Integrations
  /** What the caller is bound to; a list's door has put it into the filter already. */
  readonly limits: Limits
  /**
   * Writes an act down that is done.
   *
   * @param integrationId null: on none
   * @param target default: the integration
   * @param detail one line that says more, without secrets
   */
  note(integrationId: number | null, action: string, target?: string, detail?: string): Promise<void>
}

/** Whose records an operation is about: what a limited token may do. */
export type Reach =
  /** `id` is one of this kind, which the caller must be allowed to see. */
  | RecordKind
  /** A list with the filters `provider` and `owner`, into which the caller's limits are put. */
  | 'filtered'
  /** Nothing that belongs to anybody. */
  | 'everyone'
  /** All integrations: a limited token is refused. */
  | 'all'

/** An operation of the HTTP API. What it leaves out is the command's. */
export interface Route<F extends Fields = Fields, Result = unknown> {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** Below `/<prefix>/api/v1`: `/webhooks/:id`. What stands in it is a field. */
  readonly path: string
  readonly summary?: string
  readonly fields?: F
  readonly reach?: Reach
  /** Default 200; 202: the work goes on after the answer. */
  readonly status?: 200 | 201 | 202
  /** Of a success. */
  readonly output?: z.ZodType
  /** Its fields stand in the query, though the method may have a body. */
  readonly inQuery?: true
  /** No body is refused: to this operation an empty object means all there is. */
  readonly needsBody?: true
  /** The filter `integration` may name one that was deleted. */
  readonly outlivesIntegrations?: true
  /**
   * Of a GET: columns that operators change. They make its `ETag`, which PUT, PATCH and DELETE of the same path take as `If-Match`:
   * what another operator has changed meanwhile is not overwritten.
   */
  readonly version?: readonly string[]
  /** Below `/<prefix>/api/v1`: where to look at what was made or started. */
  location?(input: Values<F>, result: Result): string
  /** As the command's, for fields of its own. @throws Refused */
  check?(input: Values<F>): void
  run?(context: CommandContext, input: Values<F>): Promise<Result>
}

/** A question about what was found, and what is run after a yes: no more than was shown. */
export interface Agreement<F extends Fields = Fields> {
  readonly question: string
  readonly agreed: Values<F>
}

/** Why no workflow has the name. */
export interface NoWorkflow {
  readonly none: string
}

interface Described<F extends Fields> {
  /** As on the command line: `list-webhooks`. */
  readonly name: string
  readonly topic: Topic
  /** One sentence. */
  readonly summary: string
  readonly examples: readonly string[]
  /** Names of the fields that stand on the command line without an option, in their order. */
  readonly places?: readonly (keyof F & string)[]
  readonly fields: F
  /** @throws Refused where fields do not go together; before the host is loaded */
  check?(input: Values<F>): void
}

export interface Command<F extends Fields = Fields, Result = unknown> extends Described<F> {
  /** A worker does the work: without one it waits. */
  readonly needsWorker?: true
  /**
   * `program`: `integrations:<name>` runs the command itself. `own`: the work is a workflow of its own, which has the name as well
   * (src/workflows/started-commands.ts).
   */
  readonly workflow?: 'program' | 'own' | NoWorkflow
  /** `host` loads the host only; `tables`, the default, also checks Postgres, migrations and keys. */
  readonly needs?: 'host' | 'tables'
  /** What an input that needs no host gives, with how a person reads it; undefined for any other input. */
  alone?(input: Values<F>): { readonly result: Result; readonly text: string } | undefined
  /** Watches the context's signal: at Ctrl-C it gets a moment to put things in order. */
  readonly stopsItself?: true
  /** Of the command's document. */
  readonly output?: z.ZodType
  readonly reach?: Reach
  readonly routes?: readonly Route[]
  /** What to ask before, where it can't be undone. `--yes` answers it; over HTTP there is no question. Null: nothing to ask. */
  confirm?(context: CommandContext, input: Values<F>): Promise<string | Agreement<F> | null>
  run(context: CommandContext, input: Values<F>): Promise<Result>
  /** What `--json` and a workflow give of a result; default: all of it. */
  document?(result: Result): unknown
  /** For a person; default: its fields, one a line. */
  show?(result: Result, context: CommandContext): string
  /** Of a list: said where nothing is found. */
  readonly none?: string
  /** Whether a part failed, so that the command ends with 1. */
  hasFailed?(result: Result): boolean
}

/** A command that neither needs nor loads the host. */
export interface HostlessCommand<F extends Fields = Fields, Result = unknown> extends Described<F> {
  readonly workflow: NoWorkflow
  runWithoutHost(context: HostlessContext, input: Values<F>): Promise<Result>
  document?(result: Result): unknown
  show(result: Result): string
  hasFailed?(result: Result): boolean
}

export type AnyCommand = Command | HostlessCommand

/** Types a command by its fields and its result. */
export const command = <const F extends Fields, Result>(definition: Command<F, Result>): Command<F, Result> =>
  definition

export const hostlessCommand = <const F extends Fields, Result>(
  definition: HostlessCommand<F, Result>,
): HostlessCommand<F, Result> => definition

/** A result of a command that answers several questions: how each is shown depends on what was asked. */
export interface Said {
  readonly document: object
  readonly text: string
  readonly hasFailed?: boolean
}

/** How such a command shows it. */
export const said = {
  document: ({ document }: Said): unknown => document,
  show: ({ text }: Said): string => text,
  hasFailed: ({ hasFailed = false }: Said): boolean => hasFailed,
}

/** Types a route that has fields or a result of its own. */
export const route = <const F extends Fields, Result>(definition: Route<F, Result>): Route => definition as Route

/** The scope that an operation needs. */
export const scopeOf = ({ method }: Pick<Route, 'method'>): Scope => (method === 'get' ? 'read' : 'operate')

/** A document as `Field  Value`, a line each. */
export const fieldLines = (document: object): string => table(['Field', 'Value'], Object.entries(document))

type Snake<Name extends string> = Name extends `${infer Head}24h` ? `${Split<Head>}_24h` : Split<Name>
type Split<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Split<Rest>}`
  : ''

export type Columns<Row> = { [Name in keyof Row as Name extends string ? Snake<Name> : never]: Row[Name] }

/** The object with its keys in snake_case, as columns are named. What it holds stays as it is. */
export const columns = <Row extends object>(row: Row): Columns<Row> =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [snakeCase(name), value])) as Columns<Row>

/** `dryRun` → `dry-run`. */
export const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** `syncIntervalMinutes` → `sync_interval_minutes`, `requests24h` → `requests_24h`. */
export const snakeCase = (name: string): string => name.replace(/[A-Z]|\d+h$/g, (part) => `_${part.toLowerCase()}`)
