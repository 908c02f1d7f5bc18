import type { UpdateIntegration } from '../../integrations/records.ts'
import { valueReader } from '../cli/given-values.ts'
import { fieldsOf } from '../cli/schema-fields.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, route } from '../command.ts'
import { id, nullable, optional, owner, pairs, record, text, whole, yesOrNo } from '../fields.ts'
import { Refused } from '../refused.ts'
import { IntegrationShape } from '../shapes.ts'

export const minutes = whole("minutes from the end of a sync to the next; default the provider's", {
  max: 2_147_483_647, // an integer column
  placeholder: 'minutes',
  allowed: 'whole minutes of at least 1 are allowed',
})

/** Over HTTP, where the body is the patch. */
export const optionalColumns = {
  metadata: optional(record("what the provider's schema allows")),
  ownerType: optional(nullable(text("kind of the host's record that it belongs to; with owner_id"))),
  ownerId: optional(nullable(id('its id; both null: no owner'))),
  syncIntervalMinutes: optional(nullable(minutes)),
  isActive: yesOrNo('whether it is switched on'),
}

export const update = command({
  name: 'update',
  topic: 'Integrations',
  summary: 'Changes the name, the owner, the interval or metadata of an integration.',
  examples: [
    'integrations update 7 --name "Our repository"',
    'integrations update 7 --sync-interval 5 --metadata owner=acme --metadata repo=site',
  ],
  places: ['id'],
  fields: {
    id: id('of the integration'),
    name: optional(text('what people call it', 'name')),
    owner: optional(owner("the host's record that it belongs to")),
    syncInterval: optional(minutes),
    metadata: pairs('may be repeated; the value also as @file, env:NAME, or - for stdin. What is not named stays'),
  },
  reach: 'integration',
  output: IntegrationShape,
  routes: [
    route({
      method: 'patch',
      path: '/integrations/:id',
      summary: 'Changes what is given of an integration. Credentials are merged; null removes a key of theirs.',
      fields: {
        id: id('of the integration'),
        name: optional(text('what people call it')),
        credentials: optional(record('merged; null removes a key')),
        ...optionalColumns,
      },
      needsBody: true,
      run: (context, { id, name, credentials, ...rest }) =>
        changed(context, id, given({ name, credentials, ...storedColumns(rest) })),
    }),
  ],
  check({ name, owner, syncInterval, metadata }) {
    if (name === undefined && owner === undefined && syncInterval === undefined && metadata.length === 0)
      throw new Refused(
        'usage',
        'Give what to change: --name, --owner, --sync-interval or --metadata; none of them was given.',
      )
  },
  async run(context, { id, name, owner, syncInterval: syncIntervalMinutes, metadata: words }) {
    const { integrations, terminal } = context
    const { provider: key } = await integrations.get(id)
    const schema = integrations.admin.providers().find((provider) => provider.key === key)?.metadataSchema
    const read = valueReader({ ...terminal.sources, onLiteral: () => {} })
    const added = await read('--metadata', words, fieldsOf(schema))
    const metadata = words.length === 0 ? undefined : (stored: object) => ({ ...stored, ...added })
    return changed(context, id, given({ name, owner, syncIntervalMinutes, metadata }))
  },
  show: ({ id, name, provider }) => `Updated integration ${id} ("${name}", ${provider}).`,
})

/** Of a body. */
const NOTHING_NAMED =
  'names no field to change; name, credentials, metadata, owner_type with owner_id, sync_interval_minutes and is_active are allowed'

async function changed({ integrations, limits, note }: CommandContext, id: number, patch: UpdateIntegration) {
  if (Object.keys(patch).length === 0) throw new Refused('usage', NOTHING_NAMED, '')
  const { owner } = patch
  if (limits.owner !== undefined && owner !== undefined)
    if (owner?.type !== limits.owner.type || owner.id !== limits.owner.id)
      throw new Refused(
        'insufficient_scope',
        'A token that is limited to an owner gives no integration to another one.',
      )
  await integrations.update(id, patch)
  await note(id, 'update')
  return columns(await integrations.admin.operator.detail(id))
}

interface OptionalColumns {
  readonly metadata: Readonly<Record<string, unknown>> | undefined
  readonly ownerType: string | null | undefined
  readonly ownerId: number | null | undefined
  readonly syncIntervalMinutes: number | null | undefined
  readonly isActive: boolean | undefined
}

/** @throws Refused for half an owner */
export function storedColumns({ ownerType: type, ownerId, ...rest }: OptionalColumns) {
  if ((type === undefined) !== (ownerId === undefined) || (type === null) !== (ownerId === null))
    throw new Refused('usage', 'owner_type and owner_id come together', 'ownerId')
  if (type === undefined || ownerId === undefined) return given(rest)
  return given({ ...rest, owner: type === null || ownerId === null ? null : { type, id: ownerId } })
}

/** Without what is undefined. */
export const given = <Row extends object>(row: Row): { [Name in keyof Row]?: Exclude<Row[Name], undefined> } =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined)) as never
