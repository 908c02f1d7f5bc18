/** The frame in which a command runs. */
import type { Command } from 'commander'
import type { CommandContext, HostlessContext } from '../command.ts'

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
  readonly needs?: 'host' | 'tables'
  /** Watches the context's signal: at Ctrl-C it gets a moment to put things in order. Default false. */
  readonly stopsItself?: boolean
}

export interface Frame {
  /** A command under `name` and `integrations:name`, with `--json`, and with these examples in its help. */
  command(name: string, summary: string, examples: readonly string[]): Command
  /**
   * The action of a command. `needs`: `host` loads the host only; `tables` also checks Postgres, migrations and keys
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
