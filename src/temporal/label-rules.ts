/**
 * By what workflows are found in Temporal's list, beyond their id and type: `IntegrationId = 7 AND ExecutionStatus = "Running"`.
 *
 * Rule: docs/behaviour/workflows.md, "Search attributes".
 */

/** Name → type, in the words of `temporal operator search-attribute create`. */
export const SEARCH_ATTRIBUTES = { IntegrationProvider: 'Keyword', IntegrationId: 'Int' } as const

export type SearchAttributeName = keyof typeof SEARCH_ATTRIBUTES

/** What a workflow works for. A part that whoever starts it does not know is left out, and the workflow adds it itself. */
export interface WorksFor {
  readonly integrationId?: number
  readonly provider?: string
}

/** A part of an activity's input: its workflow lacks attributes and asks for them. */
export interface AsksLabels {
  readonly labels?: true | undefined
}

/**
 * A part of an activity's answer, for who asked: what its workflow is to be found by. Left out where the namespace does not know
 * the attributes.
 */
export interface FoundBy {
  readonly foundBy?: Required<WorksFor> | undefined
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

/** A part of what is seen of Temporal. */
export interface SearchAttributeInspection {
  /** As the namespace has them. @throws BackendUnreachable */
  searchAttributes(): Promise<readonly SearchAttributeState[]>
  /** Registers what is missing; a refusal is part of the answer. @throws BackendUnreachable */
  applySearchAttributes(): Promise<AppliedSearchAttributes>
  /** Whether a workflow may set them, as far as this process knows. Never waits, never throws. */
  maySetSearchAttributes(): boolean
}
