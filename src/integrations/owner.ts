/** Who an integration belongs to: a record of the host. */
import { InvalidArgumentException } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'

const MAX_TYPE_LENGTH = 255 // column `owner_type`

export interface Owner {
  readonly type: string
  readonly id: number
}

/** What is given, once it is known to be whole. @throws InvalidArgumentException */
export function checkOwner(owner: Owner | null | undefined): Owner | null | undefined {
  if (owner === undefined || owner === null) return owner
  const { type, id } = owner as Partial<Owner>
  const hasType =
    typeof type === 'string' && type.trim() !== '' && [...type].length <= MAX_TYPE_LENGTH && !type.includes('\u0000')
  if (!hasType || !isId(id))
    throw new InvalidArgumentException(
      'owner',
      `both a type of 1 to ${MAX_TYPE_LENGTH} characters and an id from 1 to 2^53 - 1 are needed`,
    )
  return { type, id }
}
