/** What the testing kit refuses. Assertions that fail are Node's own AssertionError instead, so that runners show a diff. */
import { IntegrationsError } from '../framework/errors.ts'

/** A call that nothing in the test answers. */
export class UnexpectedRequest extends IntegrationsError {
  override readonly code = 'unexpected_request'
  constructor(
    readonly method: string,
    readonly endpoint: string,
    remedy: string,
  ) {
    super(`Unexpected request ${method} ${endpoint}. ${remedy}`)
  }
}

/** More calls than the sequence of a fake, or the script of a transport, has replies. */
export class RepliesUsedUp extends IntegrationsError {
  override readonly code = 'replies_used_up'
  constructor(
    /** What was asked. */
    readonly request: string,
    /** Replies in all. */
    readonly replies: number,
    whose: string,
  ) {
    super(
      `${request} is one call too many: the ${replies} ${replies === 1 ? 'reply' : 'replies'} of ${whose} are used up.`,
    )
  }
}

/** A run that did not come to its end: nothing to do, or its listing or reducer was given up. */
export class SyncDidNotEnd extends IntegrationsError {
  override readonly code = 'sync_did_not_end'
  constructor(
    readonly integrationId: number,
    readonly reason: string,
    /** The run's row in the operation log; null when none was opened. */
    readonly syncLogId: number | null,
  ) {
    super(`The sync run of integration ${integrationId} did not end: ${reason}`)
  }
}

/** The optional peer dependency that holds the kit's database is not there. */
export class EmbeddedDatabaseMissing extends IntegrationsError {
  override readonly code = 'embedded_database_missing'
  constructor(options: { cause: unknown }) {
    super(
      'The testing kit needs the package @electric-sql/pglite (Postgres in this process), which could not be loaded. ' +
        'Install it: npm install --save-dev @electric-sql/pglite@0.5',
      options,
    )
  }
}

/** A simulation that stands still: a handler, a job or the model waits for something that never comes. */
export class SimulationStuck extends IntegrationsError {
  override readonly code = 'simulation_stuck'
  constructor(
    readonly seconds: number,
    /** What had happened until then. */
    readonly story: readonly string[],
  ) {
    super(
      `The simulation did not end within ${seconds} s of real time. What happened last:\n${story.slice(-20).join('\n')}`,
    )
  }
}

/** A plan after which an invariant of the scenario does not hold. */
export class SimulationFailed extends IntegrationsError {
  override readonly code = 'simulation_failed'
  constructor(
    /** Null: a plan was played, not a seed. */
    readonly seed: number | null,
    readonly broken: readonly { readonly name: string; readonly message: string }[],
    readonly story: readonly string[],
    /** As source text; shrunk where a seed was played. */
    readonly plan: string,
    options: { cause: unknown },
  ) {
    const of = seed === null ? 'The plan' : `Seed ${seed}`
    const what = broken.map(({ name, message }) => `  ${name}: ${message}`).join('\n')
    super(
      `${of} breaks:\n${what}\nThe story:\n${story.map((line) => `  ${line}`).join('\n')}\nThe plan:\n${plan}`,
      options,
    )
  }
}
