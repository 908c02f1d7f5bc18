/**
 * Attributes that Temporal's list of workflows is filtered by: `IntegrationId = 7 AND ExecutionStatus = "Running"`.
 * Rule: docs/behaviour/workflows.md, "Search attributes".
 */

/** Name → type, in the words of `temporal operator search-attribute create`. */
export const SEARCH_ATTRIBUTES = { IntegrationProvider: 'Keyword', IntegrationId: 'Int' } as const

export type SearchAttributeName = keyof typeof SEARCH_ATTRIBUTES

/** The integration that a workflow works for: its attributes, given at its start. */
export interface WorksFor {
  readonly integrationId: number
  /** Null: it cannot be read now, and the attribute is left out. */
  readonly provider: string | null
}

export interface SearchAttributeState {
  readonly name: SearchAttributeName
  /** What we need. */
  readonly type: string
  /** `differs`: registered by that name with another type; nothing is attached then. */
  readonly standing: 'registered' | 'missing' | 'differs'
  /** The type it is registered with; null: it is missing. */
  readonly registeredAs: string | null
}

export interface AppliedSearchAttributes {
  readonly states: readonly SearchAttributeState[]
  /** Registered by this very call. */
  readonly added: readonly SearchAttributeName[]
  /** Why one is not there after all, and the command that registers it by hand; null: all are there. */
  readonly problem: string | null
}
