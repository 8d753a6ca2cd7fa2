{{- /* What the pod's network does with TCP: all that comes goes to the sidecar's port 15006, all that leaves to 15001,
       but for what the sidecar itself sends. */}}
{{- define "redirect" }}
      words() { echo "$1" | tr ',' ' '; }
      redirect() {
        tables="$1 -w -t nat"; loopback=$2; inbound=$3; family=$4
        for chain in PILOTHOUSE_IN PILOTHOUSE_OUT; do $tables -N $chain; done
        for port in 15021 15090 $(words "$NOT_INBOUND"); do
          $tables -A PILOTHOUSE_IN -p tcp --dport "$port" -j RETURN
        done
        if [ "$INBOUND" = "*" ]; then
          $tables -A PILOTHOUSE_IN -p tcp -j REDIRECT --to-ports 15006
        else
          for port in $(words "$INBOUND"); do
            $tables -A PILOTHOUSE_IN -p tcp --dport "$port" -j REDIRECT --to-ports 15006
          done
        fi
        # What the sidecar passes on to the application it sends from this address.
        $tables -A PILOTHOUSE_OUT -o lo -s "$inbound" -j RETURN
        for port in $(words "$NOT_OUTBOUND_PORTS"); do
          $tables -A PILOTHOUSE_OUT -p tcp --dport "$port" -j RETURN
        done
        for owner in "--uid-owner $PROXY_UID" "--gid-owner $PROXY_GID"; do
          # A call of the pod to its own service comes back to it.
          $tables -A PILOTHOUSE_OUT -o lo ! -d "$loopback" -p tcp -m owner $owner -j REDIRECT --to-ports 15006
          $tables -A PILOTHOUSE_OUT -m owner $owner -j RETURN
        done
        $tables -A PILOTHOUSE_OUT -o lo -j RETURN
        $tables -A PILOTHOUSE_OUT -d "$loopback" -j RETURN
        for range in $(words "$NOT_OUTBOUND"); do
          case $family$range in 4*:*|6*.*) ;; *) $tables -A PILOTHOUSE_OUT -d "$range" -j RETURN ;; esac
        done
        if [ "$OUTBOUND" = "*" ]; then
          $tables -A PILOTHOUSE_OUT -p tcp -j REDIRECT --to-ports 15001
        else
          for range in $(words "$OUTBOUND"); do
            case $family$range in
              4*:*|6*.*) ;;
              *) $tables -A PILOTHOUSE_OUT -p tcp -d "$range" -j REDIRECT --to-ports 15001 ;;
            esac
          done
        fi
        $tables -A PREROUTING -p tcp -j PILOTHOUSE_IN
        $tables -A OUTPUT -p tcp -j PILOTHOUSE_OUT
      }
      set -f
      redirect iptables 127.0.0.1/32 127.0.0.6/32 4
      if ip6tables -w -t nat -L OUTPUT >/dev/null 2>&1; then redirect ip6tables ::1/128 ::6/128 6; fi
{{- end }}
