/**
 * What a simulation plays: a host, the world outside of it, and what must hold at the end.
 *
 * Rule: docs/testing.md, "Simulation".
 */
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import type { Sql } from 'postgres'
import type { Integrations, IntegrationsOptions } from '../../create-integrations.ts'
import type { CreateIntegration } from '../../integrations/records.ts'
import type { Integration } from '../../providers/integration.ts'
import type { FaultKind } from './plan.ts'
import type { Random } from './random.ts'

/** What the provider's side knows of the simulation. */
export interface World {
  /** By the provider's clock, which may be ahead of the host's, or behind. */
  now(): Date
  /**
   * Sends a delivery. It arrives once, late or twice, as the plan says, and again until the host has taken it.
   *
   * @param make makes the request, again for each arrival: give all of one delivery the same id
   */
  deliver(make: () => Request): void
}

/** The provider's side: its records, its API, and what may happen there. */
export interface Outside {
  /** Answers what the host's provider asks. What it throws ends the simulation: it is a mistake in the model. */
  api(request: Request): Response | Promise<Response>
  /** What may happen there by itself, by name: an order is placed, a record is deleted. */
  readonly changes: Readonly<Record<string, (random: Random) => unknown>>
}

/** One start of the host's process. */
export interface SimulatedHost {
  readonly integrations: Integrations
  /** Connections of the host's own. */
  readonly sql: Sql
  readonly db: PostgresJsDatabase
}

export type HostOptions = Pick<
  IntegrationsOptions,
  'providers' | 'models' | 'config' | 'egress' | 'logger' | 'middleware' | 'baseUrl'
>

export interface SimulationEnd<Model extends Outside = Outside> extends SimulatedHost {
  readonly outside: Model
  readonly integration: Integration
}

export interface Scenario<Model extends Outside = Outside> {
  /** Called again for each start of the host's process, as in its config. */
  host(): HostOptions
  /** SQL that makes the host's own tables. Their rows are deleted before each seed. */
  readonly tables?: string
  /** Registers the host's listeners, at each start of its process. */
  register?(host: SimulatedHost): void
  /** The integration that is played. */
  readonly integration: CreateIntegration
  /** A new one for each seed. */
  outside(world: World): Model
  /** What the host does by itself now and then, beside webhooks and syncs, by name. */
  readonly jobs?: Readonly<Record<string, (host: SimulatedHost, integration: Integration) => unknown>>
  /** What must hold once all faults are over and all work is done, by name. It throws, or returns false, where it does not. */
  readonly invariants: Readonly<Record<string, (end: SimulationEnd<Model>) => unknown>>
  /** Webhooks, items, events, syncs and jobs may end as failed. Default false: then all of them must end well. */
  readonly mayFail?: boolean
  /** The kinds of faults that are tried. Default: all. */
  readonly faults?: readonly FaultKind[]
  /** Where the host's clock begins. Default 2026-03-01T12:00:00Z. */
  readonly now?: string
}

/** Types a scenario by its model of the outside. */
export const defineScenario = <Model extends Outside>(scenario: Scenario<Model>): Scenario<Model> => scenario
