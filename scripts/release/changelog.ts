/** CHANGELOG.md, as https://keepachangelog.com/en/1.1.0/ has it. */

const UNRELEASED = '## [Unreleased]'

export interface ReleasedChangelog {
  /** The whole file, with the section of the release. */
  readonly text: string
  /** What the release brings, without its heading. */
  readonly notes: string
}

/**
 * Gives what is under "Unreleased" the heading of a release, and leaves "Unreleased" empty.
 *
 * @param date such as 2031-06-01
 * @throws when there is nothing to release
 */
export function releaseChangelog(text: string, version: string, date: string): ReleasedChangelog {
  const start = text.indexOf(`${UNRELEASED}\n`)
  if (start < 0) throw new Error(`CHANGELOG.md has no heading "${UNRELEASED}".`)
  if (text.includes(`\n## [${version}]`)) throw new Error(`CHANGELOG.md has a section of ${version} already.`)
  const from = start + UNRELEASED.length
  const next = text.indexOf('\n## [', from)
  const end = next < 0 ? text.length : next
  const notes = text.slice(from, end).trim()
  if (!/^- /m.test(notes))
    throw new Error(`CHANGELOG.md says nothing under "${UNRELEASED}": there is nothing to release.`)
  const heading = `## [${version}] - ${date}`
  return { text: `${text.slice(0, from)}\n\n${heading}\n\n${notes}\n${text.slice(end)}`, notes }
}
