/** Users, issues, comments and the repository in the words of GitHub's API. */
export interface StoredComment {
  readonly id: number
  readonly issue: number
  readonly author: string
  readonly body: string
  readonly createdAt: number
  readonly updatedAt: number
}

export interface StoredIssue {
  readonly number: number
  readonly id: number
  readonly author: string
  readonly title: string
  readonly body: string
  readonly createdAt: number
  readonly updatedAt: number
  readonly labels: readonly string[]
  readonly assignees: readonly string[]
  readonly closed: boolean
}

export type Permission = 'admin' | 'write' | 'read' | 'none'

const api = 'https://api.github.com'
const web = 'https://github.com'

function timeText(time: number): string {
  return new Date(Math.floor(time / 1000) * 1000).toISOString().replace('.000Z', 'Z')
}

export function userDocument(login: string): Record<string, unknown> {
  const name = encodeURIComponent(login)
  const own = `${api}/users/${name}`
  const id = Buffer.from(login).reduce((sum, byte) => (sum * 31 + byte) % 1_000_000, 7)
  return {
    login,
    id,
    node_id: `U_${id}`,
    avatar_url: `https://avatars.githubusercontent.com/u/${id}`,
    gravatar_id: '',
    url: own,
    html_url: `${web}/${name}`,
    followers_url: `${own}/followers`,
    following_url: `${own}/following{/other_user}`,
    gists_url: `${own}/gists{/gist_id}`,
    starred_url: `${own}/starred{/owner}{/repo}`,
    subscriptions_url: `${own}/subscriptions`,
    organizations_url: `${own}/orgs`,
    repos_url: `${own}/repos`,
    events_url: `${own}/events{/privacy}`,
    received_events_url: `${own}/received_events`,
    type: isBot(login) ? 'Bot' : 'User',
    site_admin: false,
  }
}

export function commentDocument(repository: string, comment: StoredComment, permission: Permission): unknown {
  const { id, issue, author, body, createdAt, updatedAt } = comment
  return {
    id,
    node_id: `IC_${id}`,
    url: `${api}/repos/${repository}/issues/comments/${id}`,
    html_url: `${web}/${repository}/issues/${issue}#issuecomment-${id}`,
    issue_url: `${api}/repos/${repository}/issues/${issue}`,
    user: userDocument(author),
    created_at: timeText(createdAt),
    updated_at: timeText(updatedAt),
    author_association: associationOf(permission),
    body,
  }
}

export function labelDocument(repository: string, name: string): Record<string, unknown> {
  return {
    id: name.length,
    node_id: `LA_${name.length}`,
    url: `${api}/repos/${repository}/labels/${encodeURIComponent(name)}`,
    name,
    color: 'ededed',
    default: false,
    description: null,
  }
}

export function issueDocument(repository: string, issue: StoredIssue, comments: number): unknown {
  const { number, id, author, title, body, createdAt, updatedAt, labels, assignees, closed } = issue
  const own = `${api}/repos/${repository}/issues/${number}`
  return {
    url: own,
    repository_url: `${api}/repos/${repository}`,
    labels_url: `${own}/labels{/name}`,
    comments_url: `${own}/comments`,
    events_url: `${own}/events`,
    html_url: `${web}/${repository}/issues/${number}`,
    id,
    node_id: `I_${id}`,
    number,
    title,
    user: userDocument(author),
    labels: labels.map((name) => labelDocument(repository, name)),
    state: closed ? 'closed' : 'open',
    locked: false,
    assignee: assignees[0] === undefined ? null : userDocument(assignees[0]),
    assignees: assignees.map(userDocument),
    milestone: null,
    comments,
    created_at: timeText(createdAt),
    updated_at: timeText(updatedAt),
    closed_at: null,
    author_association: 'COLLABORATOR',
    body,
  }
}

/** What an app's bot may do is a matter of its installation: as a user it is nobody. */
export function isBot(login: string): boolean {
  return login.endsWith('[bot]')
}

export function permissionDocument(login: string, permission: Permission): unknown {
  const mayWrite = permission === 'admin' || permission === 'write'
  const permissions = { pull: permission !== 'none', triage: mayWrite, push: mayWrite, maintain: false, admin: false }
  return {
    permission,
    role_name: permission,
    user: { ...userDocument(login), role_name: permission, permissions },
  }
}

/** A repository has some eighty fields. Those that are not about locks are all alike. */
export function repositoryDocument(repository: string, permission: Permission, required: readonly string[]): object {
  const [owner = '', name = ''] = repository.split('/')
  const own = `${api}/repos/${repository}`
  const mayWrite = permission === 'admin' || permission === 'write'
  const urls = Object.fromEntries(required.filter((field) => field.endsWith('_url')).map((field) => [field, own]))
  const counts = required.filter((field) => /_count$|^(forks|open_issues|watchers|size)$/.test(field))
  return {
    ...urls,
    ...Object.fromEntries(counts.map((field) => [field, 0])),
    id: 1,
    node_id: 'R_1',
    name,
    full_name: repository,
    private: false,
    owner: userDocument(owner),
    description: null,
    homepage: null,
    language: null,
    license: null,
    mirror_url: null,
    fork: false,
    url: own,
    default_branch: 'main',
    has_issues: true,
    has_projects: false,
    has_wiki: false,
    has_pages: false,
    has_discussions: false,
    archived: false,
    disabled: false,
    pushed_at: timeText(0),
    created_at: timeText(0),
    updated_at: timeText(0),
    permissions: { admin: permission === 'admin', push: mayWrite, pull: permission !== 'none' },
  }
}

function associationOf(permission: Permission): string {
  return permission === 'admin' ? 'OWNER' : permission === 'write' ? 'COLLABORATOR' : 'NONE'
}
