/** Access to a file that holds a key. Rule: docs/behaviour/credentials.md, "The file". */

const WRITABLE_BY_OTHERS = 0o022
const READABLE_BY_ALL = 0o004

/**
 * What is wrong with the file's permissions, as the end of a sentence; null when they will do.
 *
 * As ssh does with a private key, the file's owner counts: what Docker and Kubernetes mount belongs to root and is mode 444 or
 * 644, inside a container without other users.
 *
 * @param self user id of this process; undefined on Windows, where a mode says nothing
 */
export function keyFileFault(
  { mode, uid }: { readonly mode: number; readonly uid: number },
  self: number | undefined,
): string | null {
  if (self === undefined) return null
  const has = `has mode ${(mode & 0o777).toString(8).padStart(3, '0')}, so that`
  if ((mode & WRITABLE_BY_OTHERS) !== 0) return `${has} others may change it: chmod 600 it`
  if ((mode & READABLE_BY_ALL) !== 0 && uid === self && self !== 0)
    return `${has} every user of this machine may read it: chmod 600 it`
  return null
}
