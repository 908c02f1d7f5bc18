/** What a person does with an incident. Rule: docs/behaviour/incidents.md, "Acts". */

import { eq } from 'drizzle-orm'
import type { Transaction } from '../db/client.ts'
import type { IncidentRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IncidentNotFound, IncidentNotOpen, InvalidArgumentException } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import { isInstant } from '../framework/instant.ts'
import { checkTexts } from '../framework/list-filter.ts'
import { recordAct } from '../observability/audit.ts'
import type { IncidentSummary } from './list.ts'
import { annotationsOf, getIncident } from './list.ts'

/** Enough for a conversation about one outage; each list of incidents carries them. */
const MAX_ANNOTATIONS = 50
const MAX_ANNOTATION_LENGTH = 2_000
const MAX_SNOOZE_DAYS = 30
const DAY_MS = 86_400_000

export interface IncidentActor {
  /** Who acts. */
  readonly by: string
  /** From where: docs/behaviour/audit.md. */
  readonly from?: string | undefined
}

/**
 * Says that a person has seen an open incident, until it gets worse. Another one replaces the person, and the moment.
 *
 * @throws IncidentNotFound, IncidentNotOpen, InvalidArgumentException
 */
export async function acknowledgeIncident(
  framework: Framework,
  id: number,
  { note, ...actor }: IncidentActor & { readonly note?: string | undefined },
): Promise<IncidentSummary> {
  if (note !== undefined) checkAnnotation('note', note)
  const now = framework.clock.now()
  return act(framework, id, actor, { action: 'acknowledge', onlyOpen: true }, (row) => ({
    acknowledgedAt: now,
    acknowledgedBy: actor.by,
    ...(note === undefined ? {} : annotated(row, 'note', { at: now.toISOString(), by: actor.by, text: note })),
  }))
}

/**
 * Silences the repeats of an open incident until a moment, or until it gets worse. Another snooze replaces it.
 *
 * @throws IncidentNotFound, IncidentNotOpen, InvalidArgumentException
 */
export async function snoozeIncident(
  framework: Framework,
  id: number,
  { until, ...actor }: IncidentActor & { readonly until: Date },
): Promise<IncidentSummary> {
  const now = framework.clock.now().getTime()
  if (!isInstant(until) || until.getTime() <= now || until.getTime() > now + MAX_SNOOZE_DAYS * DAY_MS)
    throw new InvalidArgumentException(
      'until',
      `a moment in the next ${MAX_SNOOZE_DAYS} days is allowed, ${String(until)} was given`,
    )
  const how = { action: 'snooze', onlyOpen: true, detail: `until ${until.toISOString()}` }
  return act(framework, id, actor, how, () => ({ snoozedUntil: until, snoozedBy: actor.by }))
}

/** Writes a line beside an incident, open or closed. @throws IncidentNotFound, InvalidArgumentException */
export async function annotateIncident(
  framework: Framework,
  id: number,
  { text, ...actor }: IncidentActor & { readonly text: string },
): Promise<IncidentSummary> {
  checkAnnotation('text', text)
  const at = framework.clock.now().toISOString()
  return act(framework, id, actor, { action: 'annotate', onlyOpen: false }, (row) =>
    annotated(row, 'text', { at, by: actor.by, text }),
  )
}

/** Under the lock of the row: no act is lost to another one at the same moment. Its workflow has nothing new to see. */
async function act(
  framework: Framework,
  id: number,
  { by, from }: IncidentActor,
  { action, onlyOpen, detail }: { readonly action: string; readonly onlyOpen: boolean; readonly detail?: string },
  change: (row: IncidentRow) => Partial<IncidentRow>,
): Promise<IncidentSummary> {
  checkTexts({ by: by ?? '', from })
  const { db, tables } = framework
  await db.transaction(async (tx) => {
    const row = await lockIncident(tx, tables, id)
    if (onlyOpen && row.status !== 'open') throw new IncidentNotOpen(id)
    const { incidents } = tables
    // `updated_at` stands for what the incident's workflow has to see.
    await tx
      .update(incidents)
      .set({ ...change(row), updatedAt: row.updatedAt })
      .where(eq(incidents.id, id))
    await recordAct(tx, tables, row.integrationId, { by, from, action, target: `incident:${id}`, detail })
  })
  return getIncident(framework, id)
}

async function lockIncident(tx: Transaction, { incidents }: Tables, id: number): Promise<IncidentRow> {
  const [row] = isId(id) ? await tx.select().from(incidents).where(eq(incidents.id, id)).for('no key update') : []
  if (row === undefined) throw new IncidentNotFound(id)
  return row
}

function checkAnnotation(argument: string, text: string): void {
  checkTexts({ [argument]: text ?? '' })
  if (text.length > MAX_ANNOTATION_LENGTH)
    throw new InvalidArgumentException(
      argument,
      `at most ${MAX_ANNOTATION_LENGTH} characters are allowed, ${text.length} were given`,
    )
}

function annotated(
  { annotations }: IncidentRow,
  argument: string,
  annotation: { readonly at: string; readonly by: string; readonly text: string },
): Pick<IncidentRow, 'annotations'> {
  const before = annotationsOf(annotations)
  if (before.length >= MAX_ANNOTATIONS)
    throw new InvalidArgumentException(
      argument,
      `an incident holds ${MAX_ANNOTATIONS} annotations, and this one is full`,
    )
  return { annotations: [...before.map((each) => ({ ...each, at: each.at.toISOString() })), annotation] }
}
