/** Kinds of timeline lines that nothing in the sandbox writes by itself. */

/** With no field of their own: `state-change-issue-event` of the published description. */
const PLAIN = [
  'unlocked',
  'transferred',
  'referenced',
  'mentioned',
  'subscribed',
  'unsubscribed',
  'ready_for_review',
  'convert_to_draft',
  'merged',
  'marked_as_duplicate',
  'unmarked_as_duplicate',
  'comment_deleted',
  'connected',
  'disconnected',
  'head_ref_deleted',
  'head_ref_restored',
  'head_ref_force_pushed',
  'base_ref_changed',
  'added_to_project_v2',
  'removed_from_project_v2',
  'project_v2_item_status_changed',
  'converted_to_discussion',
  'pinned',
  'unpinned',
  // Made up: GitHub adds kinds without notice.
  'kind_of_tomorrow',
] as const
const WITH_FIELDS = ['milestoned', 'demilestoned', 'locked', 'review_requested', 'review_dismissed'] as const
/** They look like no other event: no id, or another name for the actor and the time. */
const OF_THEIR_OWN = ['committed', 'cross-referenced', 'reviewed'] as const

export const OTHER_EVENTS = [...PLAIN, ...WITH_FIELDS, ...OF_THEIR_OWN] as const
export type OtherEvent = (typeof OTHER_EVENTS)[number]
