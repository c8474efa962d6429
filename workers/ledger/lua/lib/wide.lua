-- wide: which builds of a party cover another's.
-- A coverage is `idDCL<node>`: inherits, descends, document, conversation, learning, `-` for each it
-- is not; and the node it is seen from.
-- wide:<party>  zset, all scores 0  `<node>|<flags>|<id>` of live builds that can cover another key's,
--               and `^<ancestor>|...` for each ancestor of an inheriting one
local MAX_DEPTH, NODE_LIMIT = 8, 32

-- By its reach, or by a second kind.
local function is_wide(coverage)
  if coverage == "" then return false end
  local _, kinds = string.gsub(string.sub(coverage, 3, 5), "%u", "")
  return string.sub(coverage, 1, 2) ~= "--" or kinds > 1
end

-- The root first, the node itself last.
local function path_of(node)
  local path = { "root" }
  if node == "root" then return path end
  for at in string.gmatch(node, "()/") do path[#path + 1] = string.sub(node, 1, at - 1) end
  path[#path + 1] = node
  return path
end

local function wide_members(coverage, id)
  local flags, node = string.sub(coverage, 1, 5), string.sub(coverage, 6)
  local members = { node .. "|" .. flags .. "|" .. id }
  if string.sub(flags, 1, 1) == "i" then
    local path = path_of(node)
    for i = 1, #path - 1 do members[#members + 1] = "^" .. path[i] .. "|" .. flags .. "|" .. id end
  end
  return members
end

local function index_wide(party, coverage, id)
  for _, member in ipairs(wide_members(coverage, id)) do call("ZADD", P .. "wide:" .. party, 0, member) end
end

local function unindex_wide(party, coverage, id)
  for _, member in ipairs(wide_members(coverage, id)) do call("ZREM", P .. "wide:" .. party, member) end
end

local function is_within(node, above)
  return above == "root" or node == above or string.sub(node, 1, #above + 1) == above .. "/"
end

local function admits(flags, at, node)
  return node == at
    or (string.sub(flags, 1, 1) == "i" and is_within(at, node))
    or (string.sub(flags, 2, 2) == "d" and is_within(node, at))
end

-- Whether one coverage holds all of another: the kinds, and `Reach.covers`.
local function covers(wide, narrow)
  local flags, at = string.sub(wide, 1, 5), string.sub(wide, 6)
  local others, node = string.sub(narrow, 1, 5), string.sub(narrow, 6)
  for i = 3, 5 do
    if string.sub(others, i, i) ~= "-" and string.sub(flags, i, i) == "-" then return false end
  end
  local path = path_of(node)
  if string.sub(others, 2, 2) == "d" and #path - 1 < MAX_DEPTH then
    if string.sub(flags, 2, 2) ~= "d" or not is_within(node, at) then return false end
  elseif not admits(flags, at, node) then
    return false
  end
  if string.sub(others, 1, 1) == "i" then
    for _, ancestor in ipairs(path) do
      if not admits(flags, at, ancestor) then return false end
    end
  end
  return true
end

-- Ids of live builds at the nodes from which this coverage can be held, itself left out.  A node has at
-- most 28 builds of its own; of inheriting ones below it, NODE_LIMIT are looked at, which at worst folds
-- less.
local function coverers(party, coverage, id)
  local index, found = P .. "wide:" .. party, {}
  local nodes = path_of(string.sub(coverage, 6))
  nodes[#nodes + 1] = "^" .. nodes[#nodes]
  for _, node in ipairs(nodes) do
    local from = "[" .. node .. "|"
    for _, member in ipairs(call("ZRANGEBYLEX", index, from, from .. "\255", "LIMIT", 0, NODE_LIMIT)) do
      local other = string.match(member, "|(%w+)$")
      if other ~= id then found[#found + 1] = other end
    end
  end
  return found
end
